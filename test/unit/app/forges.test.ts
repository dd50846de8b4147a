import { expect, test } from "vitest";
import { openLiveForges } from "../../../src/app/live-forges.ts";
import { createLiveConfig } from "../../../src/config/live.ts";
import { parseConfig } from "../../../src/config.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { silentLog } from "../../support/fakes.ts";

test("a forge with a login is found by its id, and its repositories by their public URL", async () => {
  const config = parseConfig({
    env: {
      TOWLINE_GITEA_API_URL: "http://gitea.gitea.svc:3000/api/v1",
      TOWLINE_GITEA_WEB_URL: "https://git.example.com",
      TOWLINE_GITEA_TOKEN: "a-token-of-gitea",
      TOWLINE_GITEA_WEBHOOK_SECRET: "0123456789abcdef",
      TOWLINE_GITLAB_WEBHOOK_SECRET: "0123456789abcdef",
    },
  });
  const deps = { metrics: createMetrics(), clock: { now: () => 0 }, log: silentLog };
  const { forges } = await openLiveForges(createLiveConfig(config), deps);
  expect([...forges.keys()]).toEqual(["gitea"]);
  const repo = repoId("https://git.example.com/org/shop.git");
  expect(repo && forges.get("gitea")?.repoName(repo)).toBe("org/shop");
});

test("a rotated webhook secret is the only one that is valid, at once", async () => {
  const configOf = (secret: string) => parseConfig({ env: { TOWLINE_GITLAB_WEBHOOK_SECRET: secret } });
  const [old, renewed] = ["0123456789abcdef", "fedcba9876543210"];
  const live = createLiveConfig(configOf(old));
  const { webhookSources } = await openLiveForges(live, {
    metrics: createMetrics(),
    clock: { now: () => 0 },
    log: silentLog,
  });
  const isAccepted = async (secret: string) => {
    const verdict = await webhookSources
      .get("gitlab")
      ?.verify(new Map([["x-gitlab-token", [secret]]]), Buffer.from("{}"));
    return verdict?.genuine;
  };
  expect([await isAccepted(old), await isAccepted(renewed)]).toEqual([true, false]);
  live.change(configOf(renewed));
  expect([await isAccepted(old), await isAccepted(renewed)]).toEqual([false, true]);
});
