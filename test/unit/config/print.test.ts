import { inspect } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { configurationPage } from "../../../dev/configuration-page.ts";
import { readFile } from "node:fs/promises";
import { configWarnings, loadConfig, parseConfig, secretValues } from "../../../src/config.ts";
import { configJsonSchema } from "../../../src/config/fields.ts";
import { printConfig } from "../../../src/config/print.ts";

const hook = "hunter2-hunter2-hook";
const env = {
  TOWLINE_GITHUB_WEBHOOK_SECRET: hook,
  TOWLINE_GITHUB_TOKEN: "hunter2-token",
  TOWLINE_REDIS_URL: "redis://:hunter2-p%40ss@redis:6379",
  TOWLINE_KLUCTL: "/opt/kluctl",
};

test("the effective configuration shows where each value comes from, and no secret", () => {
  const text = printConfig(loadConfig({ env, argvFlags: { "admin.port": "9191" }, readFile: () => "" }));
  expect(text).not.toContain("hunter2");
  expect(text).toContain('webhookSecrets: [ "***" ] # TOWLINE_GITHUB_WEBHOOK_SECRET');
  expect(text).toContain("port: 9191 # --admin-port");
  expect(text).toContain("path: /opt/kluctl # TOWLINE_KLUCTL");
  expect(text).toContain("interval: 60s # default");
});

test("the printed configuration is valid again once its secrets are added", () => {
  const sources = { env: {}, readFile: () => "sweep: { interval: 5m }" };
  const printed = parse(printConfig(loadConfig({ ...sources, argvFlags: { config: "/c" } }))) as unknown;
  expect(parseConfig({ env: {}, file: printed }).sweep.intervalMs).toBe(300_000);
});

test("printing a Config object by accident shows no secret", () => {
  const config = parseConfig({ env });
  expect(
    JSON.stringify(config) + inspect(config, { depth: 9, showHidden: true }) + String(config.redis.url),
  ).not.toContain("hunter2");
});

test("the list of secrets to hide contains every secret of the configuration", () => {
  expect(secretValues(parseConfig({ env }))).toEqual([hook, "hunter2-token", "hunter2-p%40ss", "hunter2-p@ss"]);
});

test("a configuration without a forge, and a forge that accepts unsigned deliveries, cause a warning", () => {
  const open = { id: "lab", kind: "gitea", insecureAllowUnsigned: true };
  expect(configWarnings(parseConfig({ env: {} }))).toEqual([
    expect.stringContaining("no git host (forge) is configured"),
  ]);
  expect(configWarnings(parseConfig({ env: {}, file: { forges: [open] } }))).toEqual([
    expect.stringContaining("forge lab accepts unsigned"),
  ]);
  expect(configWarnings(parseConfig({ env }))).toEqual([]);
});

test("the JSON schema allows no other keys and requires none", () => {
  const { properties, ...schema } = configJsonSchema();
  expect(schema).toMatchObject({ type: "object", additionalProperties: false });
  expect(schema).not.toHaveProperty("required");
  expect(properties?.["sweep"]?.properties?.["interval"]).toMatchObject({ type: "string", default: "60s" });
});

test("docs/configuration.md is generated from the schema", async () => {
  const page = await readFile(new URL("../../../docs/configuration.md", import.meta.url), "utf8");
  expect(page, "run `npm run docs`").toBe(await configurationPage());
});
