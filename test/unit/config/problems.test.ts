import { expect, test } from "vitest";
import { loadConfig, parseConfig } from "../../../src/config.ts";
import { ConfigError } from "../../../src/errors.ts";

test("all problems are reported at once, each with its key, where it was set and what to do", () => {
  const message = problemsOf({
    env: { TOWLINE_WEBHOKS_PORT: "80", TOWLINE_ADMIN_PORT: "many", TOWLINE_NAMESPACES: "a" },
    file: {
      forges: [
        { id: "github", kind: "github" },
        { id: "work", kind: "gitlub", webhookSecrets: ["short"], tokn: "x" },
        { id: "github", kind: "gitea", webhookSecrets: ["0123456789abcdef"] },
      ],
      webhooks: { maxBody: "30MiB" },
      sweep: 60,
      redis: { url: "http://redis" },
    },
    flags: { "log.level": "warning" },
  });
  expect(message).toBe(
    `
configuration is not valid (12 problems)
  TOWLINE_WEBHOKS_PORT             is not a known variable; did you mean "TOWLINE_WEBHOOKS_PORT"?
  TOWLINE_NAMESPACES               is not a known variable; did you mean "TOWLINE_KUBERNETES_NAMESPACES"?
  forges[1].kind                   "gitlub" is not known; did you mean "gitlab"?
  forges[1].webhookSecrets[0]      is too short: a webhook secret needs 16 characters or more
  forges[1].tokn                   is not a known key; did you mean "token"?
  webhooks.maxBody                 must be a size from 1KiB to 25MiB, like "10MiB", or a number of bytes
  admin.port (TOWLINE_ADMIN_PORT)  must be a whole number from 0 to 65535
  log.level (--log-level)          "warning" is not known; did you mean "warn"?
  redis.url                        must be a URL that begins with redis://, rediss:// or unix://
  sweep                            must be a mapping of keys to values
  forges[0].webhookSecrets         is empty: set TOWLINE_GITHUB_WEBHOOK_SECRET or a file, with 16 characters or more
  forges[2].id                     "github" is already used by another forge`.trim(),
  );
});

test("a forge without a secret is an error unless unsigned deliveries are allowed explicitly", () => {
  const forge = { id: "lab", kind: "gitea" };
  expect(problemsOf({ env: {}, file: { forges: [forge] } })).toContain("forges[0].webhookSecrets  is empty");
  const { forges } = parseConfig({ env: {}, file: { forges: [{ ...forge, insecureAllowUnsigned: true }] } });
  expect(forges[0]?.webhookSecrets).toEqual([]);
});

test.each([
  ["a secret that is too short", { TOWLINE_GITHUB_WEBHOOK_SECRET: "hunter2hunter2" }, {}],
  [
    "a secret that is no text",
    {},
    { forges: [{ id: "a", kind: "gitea", token: 18446744073, webhookSecrets: [1844674407] }] },
  ],
  ["a Redis URL with a stray %", { TOWLINE_REDIS_URL: "redis://:hunter2hunter2%@redis" }, {}],
  ["a Redis URL of another kind", { TOWLINE_REDIS_URL: "https://:hunter2hunter2@redis" }, {}],
  ["a login in an API's URL", {}, { forges: [{ id: "a", kind: "gitea", apiUrl: "https://ann:hunter2hunter2@git" }] }],
  ["a secret where a section belongs", {}, { redis: "redis://:hunter2hunter2@redis" }],
])("the message about %s does not contain it", (_, env, file) => {
  expect(problemsOf({ env, file })).not.toMatch(/hunter2|1844674407/);
});

test("a variable and its _FILE variable cannot both be set", () => {
  const env = {
    TOWLINE_GITEA_TOKEN: "one",
    TOWLINE_GITEA_TOKEN_FILE: "/two",
    TOWLINE_GITEA_WEBHOOK_SECRET: "0123456789abcdef",
  };
  expect(problemsOf({ env })).toContain("TOWLINE_GITEA_TOKEN_FILE and TOWLINE_GITEA_TOKEN are both set: remove one");
});

test("a secret file that cannot be read is named, with the reason", () => {
  const readFile = (path: string): string => {
    throw Object.assign(new Error(`no ${path}`), { code: "ENOENT" });
  };
  expect(problemsOf({ env: { TOWLINE_REDIS_URL_FILE: "/run/url" }, readFile })).toContain(
    "redis.urlFile (TOWLINE_REDIS_URL_FILE)  cannot read /run/url: no such file",
  );
});

test("two listeners cannot share a port, unless it is 0 or on different addresses", () => {
  const forge = { TOWLINE_GITEA_WEBHOOK_SECRET: "0123456789abcdef" };
  expect(problemsOf({ env: { ...forge, TOWLINE_ADMIN_PORT: "8080" } })).toContain("is the same as webhooks.port");
  expect(parseConfig({ env: { TOWLINE_ADMIN_PORT: "8080" } }).admin.port).toBe(8080);
  const metrics = { TOWLINE_METRICS_BIND_ADDRESS: "127.0.0.1:9090" };
  expect(problemsOf({ env: metrics })).toContain(
    "metrics.bindAddress (TOWLINE_METRICS_BIND_ADDRESS)  is the same as admin.port",
  );
  expect(parseConfig({ env: { ...metrics, TOWLINE_ADMIN_HOST: "127.0.0.2" } }).metrics.bindAddress).toEqual({
    host: "127.0.0.1",
    port: 9090,
  });
  expect(parseConfig({ env: { TOWLINE_ADMIN_PORT: "0", TOWLINE_WEBHOOKS_PORT: "0" } }).admin.port).toBe(0);
});

test("forks cannot be rendered if isolation is off", () => {
  const env = { TOWLINE_PREVIEW_FORKS: "isolated" };
  expect(problemsOf({ env: { ...env, TOWLINE_PREVIEW_ISOLATION: "off" } })).toContain(
    "preview.forks (TOWLINE_PREVIEW_FORKS)  is isolated but preview.isolation is off: set preview.isolation to required or auto",
  );
  expect(problemsOf({ env: { TOWLINE_PREVIEW_FORKS: "all" } })).toContain("must be off or isolated");
  expect(parseConfig({ env: { ...env, TOWLINE_PREVIEW_ISOLATION: "auto" } }).preview.forks).toBe("isolated");
  expect(parseConfig({ env: {} }).preview.forks).toBe("off");
});

test("invalid YAML is reported by line and column, without quoting the file", () => {
  const load = (text: string) => () => loadConfig({ env: { TOWLINE_CONFIG: "/c.yaml" }, readFile: () => text });
  expect(load("redis:\n  url: *hunter2\n")).toThrow(/\/c\.yaml is not valid YAML\n.*begin with \*/);
  expect(load("redis:\n  url: [hunter2\n")).toThrow(/line \d+, column \d+/);
  expect(load("redis:\n  url: a\n  url: hunter2\n")).toThrow("line 3, column 3  duplicate key");
  for (const text of ["redis:\n  url: *hunter2\n", "a: &hunter2 &b c", "token: [hunter2\n", "- !hunter2 x\n -"]) {
    expect(load(text)).toThrow(ConfigError);
    expect(load(text)).toThrow(/^(?![^]*hunter2)/);
  }
});

test("a missing file is named", () => {
  const readFile = (): string => {
    throw Object.assign(new Error(), { code: "ENOENT" });
  };
  expect(() => loadConfig({ env: {}, argvFlags: { config: "/c.yaml" }, readFile })).toThrow(
    "cannot read the configuration file /c.yaml: no such file",
  );
});

function problemsOf(sources: Parameters<typeof parseConfig>[0]): string {
  try {
    parseConfig(sources);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.replaceAll(/  +and /g, " and ");
    throw error;
  }
  return "nothing";
}

const pem = "-----BEGIN RSA PRIVATE KEY-----\\nMIIhunter2\\n-----END RSA PRIVATE KEY-----";

test("a GitHub App replaces a token, also if its key has line breaks written as \\n", () => {
  const { forges } = parseConfig({
    env: {
      TOWLINE_GITHUB_WEBHOOK_SECRET: "0123456789abcdef",
      TOWLINE_GITHUB_APP_ID: "12345",
      TOWLINE_GITHUB_APP_PRIVATE_KEY: pem,
    },
  });
  expect(forges[0]?.app?.id).toBe("12345");
  expect(forges[0]?.app?.privateKey.reveal().split("\n")).toHaveLength(3);
});

test.each([
  ["without its key", { kind: "github", appId: 7 }, "appPrivateKey  is missing"],
  ["without its id", { kind: "github", appPrivateKey: pem }, "appId  is missing"],
  ["beside a token", { kind: "github", appId: 7, appPrivateKey: pem, token: "t" }, "appId and token are both set"],
  ["on another host", { kind: "gitlab", appId: 7, appPrivateKey: pem }, "appId  is supported for kind github only"],
  ["with a file's name for a key", { kind: "github", appId: 7, appPrivateKey: "/hunter2" }, "is not a private key"],
])("a GitHub App %s is reported", (_, forge, problem) => {
  const file = { forges: [{ id: "hub", webhookSecrets: ["0123456789abcdef"], ...forge }] };
  const message = problemsOf({ env: {}, file });
  expect(message).toContain(problem);
  expect(message).not.toContain("hunter2");
});

test.each([
  [
    "for a Gitea",
    { kind: "gitea", apiUrl: "https://git.example.com/api/v1", token: "t" },
    "is supported for kinds github and gitlab",
  ],
  ["without a login", { kind: "github" }, "is true without a login: set a token or a GitHub App"],
])("reporting deployments %s is a problem", (_, forge, problem) => {
  const file = { forges: [{ id: "hub", webhookSecrets: ["0123456789abcdef"], deployments: true, ...forge }] };
  expect(problemsOf({ env: {}, file })).toContain(`forges[0].deployments  ${problem}`);
});

test("reporting deployments is off unless it is requested", () => {
  const env = { TOWLINE_GITHUB_WEBHOOK_SECRET: "0123456789abcdef", TOWLINE_GITHUB_TOKEN: "t" };
  expect(parseConfig({ env }).forges).toMatchObject([{ deployments: false }]);
  const asked = { ...env, TOWLINE_GITHUB_DEPLOYMENTS: "true" };
  expect(parseConfig({ env: asked }).forges).toMatchObject([{ deployments: true }]);
});

test("a token that is invalid in a header is refused, and not quoted", () => {
  const forge = { id: "hub", kind: "github", webhookSecrets: ["0123456789abcdef"], token: "hunter2\nhunter2" };
  const message = problemsOf({ env: {}, file: { forges: [forge] } });
  expect(message).toContain(
    "forges[0].token  contains a space, a line break or another character that is invalid in a token",
  );
  expect(message).not.toContain("hunter2");
});

test("a Gitea token without the URL of its API is a problem", () => {
  const forge = { id: "hub", kind: "gitea", webhookSecrets: ["0123456789abcdef"], token: "t" };
  expect(problemsOf({ env: {}, file: { forges: [forge] } })).toContain("forges[0].apiUrl  is missing: a token");
});

test("check runs need a GitHub App", () => {
  const forge = { id: "github", kind: "github", reportAs: "checks", webhookSecrets: ["0123456789abcdef"] };
  expect(problemsOf({ env: {}, file: { forges: [{ ...forge, token: "t" }] } })).toContain(
    "forges[0].reportAs  is checks",
  );
  const privateKey = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----";
  const app = { ...forge, appId: "1", appPrivateKey: privateKey };
  expect(parseConfig({ env: {}, file: { forges: [app] } }).forges).toMatchObject([{ reportAs: "checks" }]);
});
