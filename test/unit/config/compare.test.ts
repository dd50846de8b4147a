import { expect, test } from "vitest";
import { compareConfigs, fingerprint } from "../../../src/config/compare.ts";
import { parseConfig } from "../../../src/config.ts";

const base = {
  TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-1",
  TOWLINE_GITHUB_TOKEN: "token-1",
  TOWLINE_GITEA_WEBHOOK_SECRET: "secret-of-gitea-11",
  TOWLINE_REDIS_URL: "redis://redis:6379",
  TOWLINE_REDIS_PASSWORD: "password-1",
};

function compare(changes: Record<string, string | undefined>) {
  const change = compareConfigs(parseConfig({ env: base }), parseConfig({ env: { ...base, ...changes } }));
  return { ...change, webhooks: change.webhooks.map(({ id }) => id), logins: change.logins.map(({ id }) => id) };
}

test("secrets of webhooks and logins are told apart from what needs a restart", () => {
  expect(compare({})).toEqual({ webhooks: [], logins: [], restart: [] });
  expect(compare({ TOWLINE_GITHUB_WEBHOOK_SECRET: "secret-of-github-2" })).toMatchObject({
    webhooks: ["github"],
    restart: [],
  });
  expect(compare({ TOWLINE_GITHUB_TOKEN: "token-2" })).toMatchObject({ webhooks: [], logins: ["github"], restart: [] });
  expect(compare({ TOWLINE_LOG_LEVEL: "debug" })).toMatchObject({ restart: ["log.level"] });
  expect(compare({ TOWLINE_REDIS_PASSWORD: "password-2" })).toMatchObject({ restart: ["redis.url"] });
  expect(compare({ TOWLINE_CONCURRENCY: "63" })).toMatchObject({ restart: ["concurrency"] });
});

test("a login where there was none, and a forge that comes or goes, need a restart", () => {
  const login = { TOWLINE_GITEA_TOKEN: "token", TOWLINE_GITEA_API_URL: "http://gitea/api/v1" };
  expect(compare(login)).toMatchObject({ logins: [], restart: ["forges.gitea"] });
  expect(compare({ TOWLINE_GITHUB_TOKEN: undefined })).toMatchObject({ logins: [], restart: ["forges.github"] });
  expect(compare({ TOWLINE_GITEA_WEBHOOK_SECRET: undefined })).toMatchObject({ restart: ["forges.gitea"] });
  expect(compare({ TOWLINE_GITLAB_WEBHOOK_SECRET: "secret-of-gitlab-1" })).toMatchObject({
    restart: ["forges.gitlab"],
  });
});

test("secrets that differ make configurations differ, although neither shows them", () => {
  const [one, other] = ["token-1", "token-2"].map((token) =>
    parseConfig({ env: { ...base, TOWLINE_GITHUB_TOKEN: token } }),
  );
  expect(JSON.stringify(one)).toBe(JSON.stringify(other));
  expect(one && fingerprint(one)).not.toBe(other && fingerprint(other));
});
