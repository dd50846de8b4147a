import { expect, test } from "vitest";
import { changedKeys, fingerprint } from "../../../src/config/compare.ts";
import { configFields, forgeFields } from "../../../src/config/fields.ts";
import { isLive, takeLive } from "../../../src/config/live-keys.ts";
import { parseConfig } from "../../../src/config.ts";

const base = {
  TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1",
  TOWLINE_GITHUB_TOKEN: "token-1",
  TOWLINE_GITEA_WEBHOOK_SECRET: "secret-of-gitea-11",
  TOWLINE_REDIS_URL: "redis://redis:6379",
  TOWLINE_REDIS_PASSWORD: "password-1",
};

type Changes = Record<string, string | undefined>;

/** Which changed keys take effect now, and which need a restart. */
function compare(changes: Changes, from: Changes = {}) {
  const [before, after] = [from, { ...from, ...changes }].map((more) => parseConfig({ env: { ...base, ...more } }));
  if (!before || !after) throw new Error("there are two");
  const usable = takeLive(before, after);
  return { now: changedKeys(before, usable), restart: changedKeys(usable, after), usable };
}

test.each<[string, Changes, readonly string[], readonly string[]]>([
  ["nothing", {}, [], []],
  [
    "a secret of webhooks",
    { TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-2" },
    ["forges.github.webhookSecrets"],
    [],
  ],
  ["a login", { TOWLINE_GITHUB_TOKEN: "token-2" }, ["forges.github.token"], []],
  ["a forge that comes", { TOWLINE_GITLAB_WEBHOOK_SECRET: "secret-of-gitlab-1" }, [], ["forges.gitlab"]],
  ["a forge that goes", { TOWLINE_GITEA_WEBHOOK_SECRET: undefined }, [], ["forges.gitea"]],
  [
    "a login that comes",
    { TOWLINE_GITEA_API_URL: "https://gitea.example.com/api/v1", TOWLINE_GITEA_TOKEN: "token-1" },
    [],
    ["forges.gitea.apiUrl", "forges.gitea.token"],
  ],
  [
    "a forge at another address, whose webhook secret is already valid, and whose login is not sent to the old address",
    {
      TOWLINE_GITHUB_API_URL: "https://github.example.com/api/v3",
      TOWLINE_GITHUB_TOKEN: "token-2",
      TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-2",
    },
    ["forges.github.webhookSecrets"],
    ["forges.github.apiUrl", "forges.github.token"],
  ],
  [
    "webhooks that need no signature any more",
    { TOWLINE_GITEA_WEBHOOK_SECRET: undefined, TOWLINE_GITEA_INSECURE_ALLOW_UNSIGNED: "true" },
    [],
    ["forges.gitea.webhookSecrets", "forges.gitea.insecureAllowUnsigned"],
  ],
  [
    "the log's level, not its format",
    { TOWLINE_LOG_LEVEL: "debug", TOWLINE_LOG_FORMAT: "json" },
    ["log.level"],
    ["log.format"],
  ],
  [
    "a duration, as people write it",
    { TOWLINE_SWEEP_INTERVAL: "10s", TOWLINE_LEASE_DURATION: "30s" },
    ["sweep.interval"],
    ["lease.duration"],
  ],
  ["the password of Redis", { TOWLINE_REDIS_PASSWORD: "password-2" }, ["redis.url"], []],
  ["another Redis", { TOWLINE_REDIS_URL: "redis://elsewhere:6379" }, [], ["redis.url"]],
  [
    "another Redis with another password",
    { TOWLINE_REDIS_URL: "rediss://redis:6379", TOWLINE_REDIS_PASSWORD: "password-2" },
    [],
    ["redis.url"],
  ],
  [
    "ports",
    { TOWLINE_WEBHOOKS_PORT: "1234", TOWLINE_WEBHOOKS_MAX_BODY: "1MiB" },
    [],
    ["webhooks.port", "webhooks.maxBody"],
  ],
  [
    "previews, and how many of them run",
    { TOWLINE_PREVIEW_ENABLED: "true", TOWLINE_PREVIEW_CONCURRENCY: "7" },
    ["preview.concurrency"],
    ["preview.enabled"],
  ],
])("%s", (_name, changes, now, restart) => {
  expect(compare(changes)).toMatchObject({ now, restart });
});

test("the page starts, stops and changes with a restart, and its secrets without one", () => {
  const token = { TOWLINE_PAGE_TOKEN: "the-token-of-the-page-12345" };
  expect(compare(token).usable.page).toBeUndefined();
  expect(compare({ TOWLINE_PAGE_TOKEN: undefined }, token).usable.page?.token?.reveal()).toBe(token.TOWLINE_PAGE_TOKEN);
  const moved = compare({ TOWLINE_PAGE_PORT: "1234", TOWLINE_PAGE_TOKEN: "another-token-of-the-page-1" }, token);
  expect([moved.now, moved.restart]).toEqual([["page.token"], ["page.port"]]);

  const provider = {
    TOWLINE_PAGE_OIDC_ISSUER: "https://login.example.com",
    TOWLINE_PAGE_OIDC_CLIENT_ID: "towline",
    TOWLINE_PAGE_OIDC_CLIENT_SECRET: "client-secret-1",
    TOWLINE_PAGE_OIDC_REDIRECT_URL: "https://towline.example.com/auth/callback",
    TOWLINE_PAGE_VIEWER_GROUPS: "developers",
  };
  const rotated = compare({ TOWLINE_PAGE_OIDC_CLIENT_SECRET: "client-secret-2" }, provider);
  expect(rotated.usable.page?.oidc?.clientSecret.reveal()).toBe("client-secret-2");
  const elsewhere = {
    TOWLINE_PAGE_OIDC_CLIENT_SECRET: "client-secret-2",
    TOWLINE_PAGE_OIDC_ISSUER: "https://id.example.com",
  };
  expect(compare(elsewhere, provider).usable.page?.oidc?.clientSecret.reveal()).toBe("client-secret-1");
});

test("the documentation of a key says correctly whether changing it needs a restart", () => {
  const paths = configFields().map(({ path }) => path);
  const live = paths.filter((path) => isLive(path) === true);
  for (const path of ["webhooks.port", "lease.duration", "dataDir", "redis.prefix", "preview.enabled", "kluctl.path"])
    expect(live).not.toContain(path);
  for (const path of ["log.level", "concurrency", "page.token", "page.oidc.clientSecretFile", "redis.password"])
    expect(live).toContain(path);
  const ofForges = forgeFields("github").filter(({ path }) => isLive(path) === true);
  expect(ofForges.map(({ path }) => path)).toEqual([
    ...["webhookSecrets", "webhookSecretFiles", "token", "tokenFile", "appPrivateKey", "appPrivateKeyFile"],
  ]);
  // The number shows that every live key is a key of the schema, so none is misspelt.
  expect(live).toHaveLength(40);
});

test("different secrets make configurations differ, although neither configuration shows them", () => {
  const [one, other] = ["token-1", "token-2"].map((token) =>
    parseConfig({ env: { ...base, TOWLINE_GITHUB_TOKEN: token } }),
  );
  expect(JSON.stringify(one)).toBe(JSON.stringify(other));
  expect(one && fingerprint(one)).not.toBe(other && fingerprint(other));
});
