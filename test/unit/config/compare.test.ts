import { expect, test } from "vitest";
import { changedKeys, fingerprint } from "../../../src/config/compare.ts";
import { configFields } from "../../../src/config/fields.ts";
import { isFixed, keepFixed } from "../../../src/config/fixed.ts";
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
  const usable = keepFixed(before, after);
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
  ["a forge that comes", { TOWLINE_GITLAB_WEBHOOK_SECRET: "secret-of-gitlab-1" }, ["forges.gitlab"], []],
  ["a forge that goes", { TOWLINE_GITEA_WEBHOOK_SECRET: undefined }, ["forges.gitea"], []],
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
    ["webhooks.maxBody"],
    ["webhooks.port"],
  ],
])("%s", (_name, changes, now, restart) => {
  expect(compare(changes)).toMatchObject({ now, restart });
});

test("the page starts on its configured port, stops with its configuration, and keeps its port while it runs", () => {
  const token = { TOWLINE_UI_TOKEN: "the-token-of-the-page-12345" };
  expect(compare({ ...token, TOWLINE_UI_PORT: "1234" }).usable.ui?.port).toBe(1234);
  const moved = compare({ TOWLINE_UI_PORT: "1234" }, token);
  expect([moved.usable.ui?.port, moved.restart]).toEqual([8090, ["ui.port"]]);
  expect(compare({ TOWLINE_UI_TOKEN: undefined }, token).usable.ui).toBeUndefined();
});

test("the documentation of a key says correctly whether changing it needs a restart", () => {
  const paths = configFields().map(({ path }) => path);
  const fixed = paths.filter((path) => isFixed(path) === true);
  for (const path of ["webhooks.port", "lease.duration", "dataDir", "redis.prefix", "leaderElection"])
    expect(fixed).toContain(path);
  for (const path of ["log.level", "concurrency", "ui.token", "preview.enabled", "kluctl.path"])
    expect(fixed).not.toContain(path);
  // The number shows that every fixed key is a key of the schema, so none is misspelt.
  expect(fixed).toHaveLength(30);
});

test("different secrets make configurations differ, although neither configuration shows them", () => {
  const [one, other] = ["token-1", "token-2"].map((token) =>
    parseConfig({ env: { ...base, TOWLINE_GITHUB_TOKEN: token } }),
  );
  expect(JSON.stringify(one)).toBe(JSON.stringify(other));
  expect(one && fingerprint(one)).not.toBe(other && fingerprint(other));
});
