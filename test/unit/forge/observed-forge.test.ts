import { expect, test } from "vitest";
import { createObservedForge } from "../../../src/forge/observed-forge.ts";
import { findRateLimit } from "../../../src/forge/rate-limit.ts";
import { fakeForge } from "../../support/fake-forge.ts";

test("every request to a forge is recorded with its operation and result", async () => {
  const forge = fakeForge();
  const { key } = forge.put(7);
  const told: string[] = [];
  const observed = createObservedForge(forge, (operation, result) => told.push(`${operation} ${result}`));
  await observed.pullRequest(key);
  await observed.createComment(key, "text");
  await observed.closedPullRequests(key.repoName, 0);
  forge.fail("rate-limited", 30_000);
  await expect(observed.ownComments(key)).rejects.toMatchObject({ problem: "rate-limited" });
  expect(told).toEqual(["pullRequest ok", "createComment ok", "closedPullRequests ok", "ownComments rate-limited"]);
});

test("GitHub's and GitLab's answers contain the number of remaining requests", () => {
  const github = new Headers({ "x-ratelimit-remaining": "4987", "x-ratelimit-limit": "5000" });
  expect(findRateLimit(github)).toEqual({ remaining: 4_987, limit: 5_000 });
  const gitlab = new Headers({ "ratelimit-remaining": "0", "ratelimit-limit": "600", "ratelimit-reset": "1795368314" });
  expect(findRateLimit(gitlab)).toEqual({ remaining: 0, limit: 600, resetAt: 1_795_368_314_000 });
  expect(findRateLimit(new Headers({ "x-ratelimit-remaining": "many" }))).toBeUndefined();
  expect(findRateLimit(new Headers())).toBeUndefined();
});
