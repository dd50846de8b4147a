import { expect, test } from "vitest";
import { loadConfig, parseConfig } from "../../../src/config.ts";

const secret = "a-webhook-secret-of-24-ch";

test("an empty configuration is valid: it has defaults and no forge", () => {
  const config = parseConfig({ env: { HOME: "/home/ann" } });
  expect(config).toMatchObject({
    forges: [],
    webhooks: { host: "0.0.0.0", port: 8080, maxBodyBytes: 10 * 1024 * 1024 },
    admin: { port: 9090 },
    dataDir: "/home/ann/.local/state/towline",
    sweep: { intervalMs: 60_000 },
    lease: { durationMs: 15_000 },
    dryRun: false,
  });
  expect(config.redis.url).toBeUndefined();
  expect(config.concurrency).toBeGreaterThanOrEqual(2);
});

test("a flag overrides a variable, and a variable overrides the file", () => {
  const file = { webhooks: { port: 1001 }, admin: { port: 1002 }, log: { level: "debug" } };
  const env = { TOWLINE_WEBHOOKS_PORT: "2001", TOWLINE_ADMIN_PORT: "2002" };
  const config = parseConfig({ file, env, flags: { "webhooks.port": "3001" } });
  expect([config.webhooks.port, config.admin.port, config.log.level]).toEqual([3001, 2002, "debug"]);
});

test("variables alone describe one forge of each kind", () => {
  const { forges } = parseConfig({
    env: {
      TOWLINE_GITHUB_WEBHOOK_SECRET: `${secret}-1, ${secret}-2\n`,
      TOWLINE_GITHUB_TOKEN: "ghp_token",
      TOWLINE_GITHUB_API_URL: "https://github.example.com/api/v3",
      TOWLINE_GITEA_WEBHOOK_SECRET: secret,
    },
  });
  expect(forges.map(({ id, kind, webhookSecrets }) => [id, kind, webhookSecrets.map((s) => s.reveal())])).toEqual([
    ["github", "github", [`${secret}-1`, `${secret}-2`]],
    ["gitea", "gitea", [secret]],
  ]);
  expect(forges[0]?.token?.reveal()).toBe("ghp_token");
  expect(forges[0]?.apiUrl).toBe("https://github.example.com/api/v3");
});

test("a forge's variables replace the file's settings for the forge with that id, secret files included", () => {
  const file = {
    forges: [
      { id: "work", kind: "github", webhookSecrets: [secret] },
      { id: "github", kind: "github", webhookSecrets: ["old-old-old-old-old"], tokenFile: "/gone" },
    ],
  };
  const { forges } = parseConfig({ file, env: { TOWLINE_GITHUB_WEBHOOK_SECRET: secret, TOWLINE_GITHUB_TOKEN: "new" } });
  expect(forges.map(({ id }) => id)).toEqual(["work", "github"]);
  expect(forges[1]?.webhookSecrets.map((s) => s.reveal())).toEqual([secret]);
  expect(forges[1]?.token?.reveal()).toBe("new");
});

test("every secret can be read from a file, without its trailing newline", () => {
  const files: Record<string, string> = {
    "/c.yaml": "forges:\n  - id: gl\n    kind: gitlab\n    webhookSecretFiles: [/hook]\n    tokenFile: /token\n",
    "/hook": `${secret}-new\n${secret}-old\n`,
    "/token": "glpat-1\n",
    "/redis": "redis://redis:6379\n",
  };
  const { config } = loadConfig({
    env: { TOWLINE_CONFIG: "/c.yaml", TOWLINE_REDIS_URL_FILE: "/redis" },
    readFile: (path) => files[path] ?? "",
  });
  expect(config.forges[0]?.webhookSecrets.map((s) => s.reveal())).toEqual([`${secret}-new`, `${secret}-old`]);
  expect(config.forges[0]?.token?.reveal()).toBe("glpat-1");
  expect(config.redis.url?.reveal()).toBe("redis://redis:6379");
});

test("--config overrides TOWLINE_CONFIG", () => {
  const sources = { env: { TOWLINE_CONFIG: "/b" }, argvFlags: { config: "/a" } };
  const { config } = loadConfig({ ...sources, readFile: (path) => `redis: { prefix: from${path.slice(1)} }` });
  expect(config.redis.prefix).toBe("froma");
});

test("the Redis password becomes part of its URL, whatever characters it contains", () => {
  const password = "p@ss:/%w#rd";
  const { redis } = parseConfig({
    env: { TOWLINE_REDIS_URL: "rediss://redis:6380/2", TOWLINE_REDIS_PASSWORD: password },
  });
  const url = new URL(redis.url?.reveal() ?? "");
  expect(decodeURIComponent(url.password)).toBe(password);
  expect([url.protocol, url.host, url.pathname]).toEqual(["rediss:", "redis:6380", "/2"]);
});

test("the variables that Kubernetes sets for a Service named towline are not configuration", () => {
  const config = parseConfig({
    env: {
      TOWLINE_SERVICE_HOST: "10.0.0.7",
      TOWLINE_SERVICE_PORT: "8080",
      TOWLINE_SERVICE_PORT_WEBHOOKS: "8080",
      TOWLINE_PORT: "tcp://10.0.0.7:8080",
      TOWLINE_PORT_8080_TCP: "tcp://10.0.0.7:8080",
      TOWLINE_PORT_8080_TCP_ADDR: "10.0.0.7",
      TOWLINE_PORT_8080_TCP_PROTO: "tcp",
      // the Service "towline-webhooks" makes Kubernetes set the name of one of our own variables
      TOWLINE_WEBHOOKS_PORT: "tcp://10.0.0.8:80",
    },
  });
  expect(config.webhooks.port).toBe(8080);
});

test("an empty variable and a key without values count as not set", () => {
  const config = parseConfig({
    env: { TOWLINE_LOG_LEVEL: "", TOWLINE_REDIS_URL: " " },
    file: { redis: null, log: {} },
  });
  expect([config.log.level, config.redis.url]).toEqual(["info", undefined]);
});

test("durations use Go's syntax, and sizes use powers of 1024", () => {
  const config = parseConfig({ env: {}, file: { sweep: { interval: "1m30s" }, webhooks: { maxBody: "512KiB" } } });
  expect([config.sweep.intervalMs, config.webhooks.maxBodyBytes]).toEqual([90_000, 512 * 1024]);
});
