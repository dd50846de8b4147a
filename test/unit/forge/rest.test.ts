import { expect, test } from "vitest";
import { createRest, withRest } from "../../../src/forge/rest.ts";
import { fakeForge } from "../../support/fake-forge.ts";

function useResting() {
  const clock = { time: 1_000, now: () => clock.time };
  const forge = fakeForge();
  const { key } = forge.put(7);
  const rest = createRest(forge.id, clock);
  return { clock, forge, key, rest, resting: withRest(forge, rest) };
}

test("a rate-limited forge gets no request until the wait that it asked for is over", async () => {
  const { clock, forge, key, rest, resting } = useResting();
  forge.fail("rate-limited", 30_000);
  await expect(resting.pullRequest(key)).rejects.toMatchObject({ problem: "rate-limited", retryAfterMs: 30_000 });
  forge.fail();
  clock.time += 10_000;
  const calls = [
    () => resting.ownComments(key),
    () => resting.openPullRequests(key.repoName),
    () => resting.closedPullRequests(key.repoName, 0),
    // What is sent with the same login, but not by the forge.
    () => rest.ask(() => forge.ownComments(key)),
  ];
  for (const call of calls) {
    await expect(call()).rejects.toMatchObject({ problem: "rate-limited", retryAfterMs: 20_000 });
  }
  expect(forge.calls).toHaveLength(1);
  clock.time += 20_000;
  expect((await resting.pullRequest(key))?.key).toEqual(key);
});

test("a forge that is unreachable, or gives no wait, is asked again by the next call", async () => {
  const { forge, key, resting } = useResting();
  forge.fail("unreachable", 30_000);
  await expect(resting.pullRequest(key)).rejects.toMatchObject({ problem: "unreachable" });
  forge.fail("rate-limited");
  await expect(resting.pullRequest(key)).rejects.toMatchObject({ problem: "rate-limited" });
  forge.fail();
  expect((await resting.pullRequest(key))?.key).toEqual(key);
});
