import { expect, onTestFinished, test, vi } from "vitest";
import { whenKnown } from "../../../src/app/when-known.ts";
import type { GitEvent } from "../../../src/model.ts";

const ping: GitEvent = { kind: "ping", forge: "gitea", delivery: "7c1e" };
const receipt = { delivery: "7c1e", matched: 0, queued: 0, ignored: [] };

function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const state = { synced: false, accepted: 0 };
  const accept = whenKnown(
    () => {
      state.accepted++;
      return Promise.resolve(receipt);
    },
    { synced: () => state.synced },
  );
  return { state, accept };
}

test("a delivery waits until the deployments are known", async () => {
  const { state, accept } = setUp();
  const accepted = accept(ping);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(state.accepted).toBe(0);
  state.synced = true;
  await vi.advanceTimersByTimeAsync(100);
  expect(await accepted).toEqual(receipt);
});

test("a delivery that would have to wait for long is not accepted", async () => {
  const { state, accept } = setUp();
  const refused = accept(ping).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await refused).toMatchObject({ status: 503 });
  expect(state.accepted).toBe(0);
});
