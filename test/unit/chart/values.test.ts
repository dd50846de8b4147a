/** Which values the chart accepts, checked without Helm. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { configFields, forgeFields } from "../../../src/config/fields.ts";

const chart = join(import.meta.dirname, "../../../chart");
const read = (name: string) => readFileSync(join(chart, name), "utf8");
const ajv = new Ajv2020({ strict: false, formats: { uri: true } });
const isValid = ajv.compile(JSON.parse(read("values.schema.json")) as object);

/** Parsed as YAML 1.1, as Helm does. */
const defaults = parse(read("values.yaml"), { version: "1.1" }) as Record<string, Record<string, unknown>>;

test("the default values are valid", () => {
  expect(isValid(defaults), ajv.errorsText(isValid.errors)).toBe(true);
});

test("no value may hold a secret", () => {
  const secrets = [...configFields(), ...forgeFields("github")].filter(({ secret }) => secret);
  expect(secrets.map(({ path }) => path)).toContain("token");
  for (const { keys, path } of secrets) {
    const nested = keys.reduceRight<unknown>((inner, key) => ({ [key]: inner }), "hush");
    expect(isValid({ config: nested }), path).toBe(false);
    expect(isValid({ forges: [{ id: "github", kind: "github", [keys.at(-1) ?? ""]: "hush" }] }), path).toBe(false);
  }
});

test("a key of the configuration that the chart does not write itself can be set", () => {
  expect(isValid({ config: { sweep: { interval: "30s" }, clusterName: "prod", log: { level: "debug" } } })).toBe(true);
});

describe("the schema rejects", () => {
  test.each([
    ["a key that is not known", { replicas: 3 }],
    ["a key of the configuration that is not known", { config: { sweep: { intervall: "30s" } } }],
    ["a place that belongs to the image", { config: { dataDir: "/data" } }],
    ["another type", { replicaCount: "two" }],
    ["a word that is no choice", { config: { log: { level: "loud" } } }],
    ["a tier that there is not", { rbac: { tier: "root" } }],
    ["what is no duration", { config: { sweep: { interval: "1x" } } }],
    ["a duration without a unit", { config: { shutdown: { drain: "60" } } }],
    ["what is no size", { config: { webhooks: { maxBody: "10 apples" } } }],
    ["what is no size of a volume", { redis: { persistence: { size: "big" } } }],
    ["what is no URL of a Redis", { externalRedis: { url: "redis:6379" } }],
    ["a password in a URL", { externalRedis: { url: "redis://default:hush@redis:6379" } }],
    ["a sentinel without a port", { externalRedis: { sentinels: ["redis-0"] } }],
    ["what is no service account", { rbac: { serviceAccounts: ["a b"] } }],
    ["a git host of no known kind", { forges: [{ id: "svn", kind: "subversion" }] }],
  ])("%s", (_, values) => {
    expect(isValid(values)).toBe(false);
  });
});

test.each([
  ["durations as Go writes them", { config: { sweep: { interval: "1m30.5s" }, shutdown: { drain: "0" } } }],
  ["sizes with and without a unit", { config: { webhooks: { maxBody: "1 MiB" } } }],
  ["a size as a number", { config: { webhooks: { maxBody: 1_048_576 } } }],
  ["sizes of volumes, and none", { redis: { persistence: { size: "1.5Gi" } }, volumes: { dataSize: "" } }],
  ["a Redis with a user", { externalRedis: { url: "rediss://towline@redis.example.com:6380/2" } }],
  ["a Redis of sentinels", { externalRedis: { url: "redis://mymaster", sentinels: ["redis-0:26379", "[::1]:26379"] } }],
  ["accounts of all kinds", { rbac: { serviceAccounts: ["*", "deployer", "shop/deployer.v2"] } }],
])("the schema accepts %s", (_, values) => {
  expect(isValid(values), ajv.errorsText(isValid.errors)).toBe(true);
});

test("the chart has the version of the program", () => {
  const { version } = JSON.parse(readFileSync(join(chart, "../package.json"), "utf8")) as { version: string };
  expect(parse(read("Chart.yaml"))).toMatchObject({ version, appVersion: version });
});

test("the pod's writable paths are the image's volumes", () => {
  const dockerfile = readFileSync(join(chart, "../Dockerfile"), "utf8");
  const volumes = JSON.parse(/^VOLUME (\[.*\])$/m.exec(dockerfile)?.[1] ?? "[]") as string[];
  const deployment = read("templates/deployment.yaml");
  expect(volumes).not.toHaveLength(0);
  for (const volume of volumes) expect(deployment).toContain(`mountPath: ${volume}\n`);
});

test("image names contain no registry, so that a cluster's default registry applies", () => {
  for (const repository of [defaults["image"], (defaults["redis"] as { image: object }).image])
    expect(repository).toHaveProperty("repository", expect.stringMatching(/^[a-z]+\/[a-z]+$/));
});
