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
