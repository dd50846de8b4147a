/** docker-compose.yml compared with the Dockerfile, the configuration and the example of its variables. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseDockerfile, toPairs } from "../../../dev/image/dockerfile.ts";
import { parseConfig } from "../../../src/config.ts";

interface Service {
  readonly image: string;
  readonly user?: string;
  readonly network_mode?: string;
  readonly profiles?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly build?: { readonly args: Readonly<Record<string, string | null>> };
  readonly environment?: Readonly<Record<string, string | null>>;
  readonly volumes?: readonly (string | { readonly target: string; readonly read_only?: boolean })[];
  readonly tmpfs?: readonly string[];
  readonly ports?: readonly string[];
  readonly command?: readonly string[];
  readonly healthcheck?: object;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

const root = join(import.meta.dirname, "../../..");
const read = (name: string) => readFileSync(join(root, name), "utf8");
const compose = parse(read("docker-compose.yml")) as {
  readonly services: Readonly<Record<"towline" | "redis" | "gitea" | "previews", Service>>;
  readonly volumes: Readonly<Record<string, null>>;
};
const { towline, redis, gitea, previews } = compose.services;
const { stages } = parseDockerfile(read("Dockerfile"));
const last = stages.at(-1)?.instructions ?? [];
const instruction = (name: string) => last.filter((one) => one.name === name);
const exampleVariables = read(".env.example").matchAll(/^#?([A-Z][A-Z0-9_]*)=/gm);
const example = Array.from(exampleVariables, ([, name = ""]) => name);

test("the server's variables are keys of the configuration, and without values the server starts with its defaults", () => {
  const { environment = {} } = towline;
  const values = Object.entries(environment).map(([name, value]) => [name, toValue(name, value)] as const);
  const env = Object.fromEntries(values);
  // parseConfig rejects a name that is not in the configuration.
  const config = parseConfig({ env: { ...env, ...imageEnv() } });
  expect(config.redis.url?.reveal()).toContain("127.0.0.1:6379");
  expect(config.forges.map(({ kind }) => kind).toSorted()).toEqual(["gitea", "github", "gitlab"]);
  const ports = instruction("EXPOSE").flatMap(({ text }) => text.split(" ").map(Number));
  expect(ports).toEqual([config.webhooks.port, config.admin.port]);
});

test("the directories that the server writes to are writable, and no others", () => {
  const volumes = instruction("VOLUME").flatMap(({ list = [] }) => list);
  const writable = (towline.volumes ?? []).filter((volume) => typeof volume !== "string" || !volume.endsWith(":ro"));
  const mounted = writable.map((volume) => (typeof volume === "string" ? volume.split(":")[1] : volume));
  const files = mounted.filter((volume) => typeof volume === "object");
  expect(files).toMatchObject([{ target: "/kubeconfig", read_only: true }]);
  expect(towline.environment?.["KUBECONFIG"]).toBe("/kubeconfig");
  const tmpfs = (towline.tmpfs ?? []).map((mount) => mount.split(":")[0]);
  expect([...mounted.filter((volume) => typeof volume === "string"), ...tmpfs].toSorted()).toEqual(volumes.toSorted());
  const text = instruction("RUN").map((one) => one.text);
  for (const volume of volumes.filter((path) => path !== "/tmp")) expect(text.join("\n")).toContain(` ${volume}`);
});

test("every service has minimal rights, a fixed version and a health check", () => {
  for (const [name, service] of Object.entries(compose.services)) {
    expect(service.cap_drop, name).toEqual(["ALL"]);
    expect(service.security_opt, name).toEqual(["no-new-privileges:true"]);
    if (service === towline) expect(instruction("HEALTHCHECK")).toHaveLength(1);
    else {
      if (service.image !== towline.image) expect(service.image, name).toMatch(/:\d+\.\d+\.\d+/);
      expect(service.healthcheck, name).toBeDefined();
    }
    for (const volume of service.volumes ?? []) {
      if (typeof volume === "string") expect(compose.volumes, name).toHaveProperty(volume.split(":")[0]!);
    }
  }
  expect(towline.read_only && redis.read_only).toBe(true);
  expect(gitea.profiles).toEqual(["try"]);
  expect(towline.depends_on).toEqual({ redis: { condition: "service_healthy" } });
});

test("the preview renderer has no network, none of the server's volumes, and a socket that the server finds", () => {
  expect(previews).toMatchObject({ image: towline.image, network_mode: "none", read_only: true, user: towline.user });
  expect(previews.profiles).toEqual(["previews"]);
  expect(Object.keys(previews.environment ?? {}).filter((name) => !name.startsWith("TOWLINE_PREVIEW_"))).toEqual([]);
  const [volume = "", ...more] = (previews.volumes ?? []).map(String);
  const [name, at = ""] = volume.split(":");
  expect(more).toEqual([]);
  expect(towline.volumes).toContain(`${name}:/run/previews:ro`);
  const { runner } = parseConfig({ env: previewsEnv() }).preview;
  expect(runner.bindAddress).toEqual({ path: `${at}/socket` });
  for (const file of ["docker-compose.yml", ".env.example"]) {
    expect(read(file)).toContain("TOWLINE_PREVIEW_RUNNER_ADDRESS=unix:/run/previews/socket");
  }
});

test("Redis persists its data, evicts nothing and requires a password, which has to be set", () => {
  const config = redis.command?.at(-1) ?? "";
  for (const line of ["appendonly yes", "maxmemory-policy noeviction", "requirepass $$TOWLINE_REDIS_PASSWORD"])
    expect(config).toContain(line);
  expect(redis.ports).toEqual(["127.0.0.1:${TOWLINE_REDIS_PORT:-6379}:6379"]); // this machine only
  expect(redis.environment?.["TOWLINE_REDIS_PASSWORD"]).toMatch(/^\$\{TOWLINE_REDIS_PASSWORD:\?/);
});

test("the example names every variable that is read, and no other", () => {
  const used = read("docker-compose.yml")
    .split("\n")
    .filter((line) => !line.trim().startsWith("#"))
    .flatMap((line) => Array.from(line.matchAll(/(?<!\$)\$\{([A-Z_0-9]+)/g), ([, name = ""]) => name));
  const handedOn = [...Object.entries(towline.environment ?? {}), ...Object.entries(towline.build?.args ?? {})]
    .filter(([, value]) => value === null)
    .map(([name]) => name);
  const wanted = new Set([...used, ...handedOn].filter((name) => name !== "HOME"));
  expect(example.toSorted()).toEqual([...wanted].toSorted());
});

test("the image's build arguments exist in the Dockerfile, with the same kluctl version", () => {
  const args = stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ name }) => name === "ARG")
    .map(({ text }) => toPairs(text));
  for (const name of Object.keys(towline.build?.args ?? {}))
    expect(args).toContainEqual(expect.objectContaining({ [name]: expect.anything() }));
  const version = args.find((pair) => pair["KLUCTL_VERSION"])?.["KLUCTL_VERSION"] ?? "";
  expect(towline.build?.args["KLUCTL_VERSION"]).toBe(`\${KLUCTL_VERSION:-${version}}`);
  for (const page of ["docs/image.md", ".env.example"]) expect(read(page)).toContain(version);
});

function previewsEnv(): Record<string, string> {
  const values = Object.entries(previews.environment ?? {}).map(
    ([name, value]) => [name, toValue(name, value)] as const,
  );
  return Object.fromEntries(values);
}

function imageEnv(): Record<string, string> {
  return Object.assign({}, ...instruction("ENV").map(({ text }) => toPairs(text))) as Record<string, string>;
}

/** The value that compose would set with a filled `.env`. */
function toValue(name: string, value: string | null): string {
  if (value !== null)
    return value.replaceAll(/\$\{\w+(?::-(\w+)|:\?[^}]*)\}/g, (_, otherwise?: string) => otherwise ?? "p".repeat(16));
  if (name === "TOWLINE_PREVIEW_ISOLATION") return "required";
  if (name === "TOWLINE_PREVIEW_RUNNER_ADDRESS") return "unix:/run/previews/socket";
  if (name.endsWith("_URL")) return "https://git.example.com/api";
  return "s".repeat(24);
}
