import { onTestFinished, expect, test, vi } from "vitest";
import type { Deployment, Request } from "../../../../src/model.ts";
import type { DeploymentChange } from "../../../../src/ports.ts";
import { startDriftWaking } from "../../../../src/reconcile/skip/drift-waking.ts";
import { aSummary } from "../../../support/deployments.ts";
import { silentLog } from "../../../support/fakes.ts";
import { ready } from "../../../support/reconciling.ts";
import { aRendered, aSkippingWorld, aStanding, settingsId, settingsVersion } from "../../../support/skipping.ts";

function useWaking(deployment: Deployment = aStanding()) {
  const world = aSkippingWorld(deployment);
  const asked: Request[] = [];
  const state = { deployment, down: false };
  const callbacks: ((change: DeploymentChange) => void)[] = [];
  const stop = startDriftWaking({
    deployments: {
      all: () => [state.deployment],
      find: () => state.deployment,
      onChange: (callback) => void callbacks.push(callback),
    },
    applied: world.applied,
    skipping: world.skipping,
    queue: {
      enqueue: (requests) => {
        if (state.down) return Promise.reject(new Error("Redis is away"));
        return Promise.resolve({ queued: asked.push(...requests) });
      },
    },
    log: silentLog,
    timing: { settleMs: 1_000, shortestGapMs: 10_000, longestGapMs: 100_000, busyMs: 5_000 },
  });
  vi.useFakeTimers();
  onTestFinished(() => {
    stop();
    vi.useRealTimers();
  });
  const edit = (version: number) =>
    world.applied.change(settingsId, { ...settingsVersion, resourceVersion: String(version) });
  return {
    ...world,
    asked,
    state,
    edit,
    remove: () => callbacks.forEach((callback) => callback({ kind: "removed", deployment })),
    pass: (ms: number) => vi.advanceTimersByTimeAsync(ms),
  };
}

test("an edit of an applied object is looked at soon, several at once once", async () => {
  const { loop, edit, pass, asked } = useWaking();
  await loop();
  edit(11);
  edit(12);
  await pass(1_000);
  expect(asked).toMatchObject([{ kind: "reconcile", deployment: { name: "prod" }, cause: "drift" }]);
  await pass(600_000);
  expect(asked).toHaveLength(1);
});

test("a deleted object and one that is new are looked at too", async () => {
  const { loop, applied, pass, asked } = useWaking();
  await loop();
  applied.remove(settingsId);
  await pass(1_000);
  expect(asked).toHaveLength(1);
  await loop();
  await pass(60_000);
  applied.change("/Secret/shop/more", settingsVersion);
  await pass(60_000);
  expect(asked).toHaveLength(2);
});

test("what is applied while it is worked on is nobody's drift, whoever hears of it when", async () => {
  const { skipping, loop, edit, pass, asked, applied } = useWaking();
  await loop();
  const rendered = aRendered();
  const json = rendered.objects[0]!.applied!.replace('"10"', '"11"');
  const work = skipping.during(aStanding().key, async () => {
    edit(11);
    await pass(60_000);
    await loop({ deployed: true, rendered: { ...rendered, objects: [{ ...rendered.objects[0]!, applied: json }] } });
  });
  await work;
  await pass(60_000);
  // The watch may be behind, and tell of what was there before.
  edit(9);
  applied.state.objects.delete(settingsId);
  await pass(60_000);
  expect(asked).toEqual([]);
});

test("what happened while it was worked on is looked at afterwards", async () => {
  const { skipping, loop, edit, pass, asked } = useWaking();
  await skipping.during(aStanding().key, async () => {
    await loop();
    edit(11);
    await pass(60_000);
    expect(asked).toEqual([]);
  });
  await pass(1_000);
  expect(asked).toHaveLength(1);
});

test("a controller that writes all the time is looked at less and less often", async () => {
  const { loop, edit, pass, asked } = useWaking();
  await loop();
  for (let second = 0; second < 1_000; second++) {
    edit(11 + second);
    await pass(1_000);
  }
  expect(asked.length).toBeGreaterThan(5);
  expect(asked.length).toBeLessThan(20);
});

test("another server's work is waited for, and its deploy is no drift", async () => {
  const { loop, edit, pass, asked, state } = useWaking();
  await loop();
  state.deployment = aStanding({ status: { conditions: [ready, { ...ready, type: "Reconciling" }] } });
  edit(11);
  await pass(20_000);
  state.deployment = aStanding({ status: { lastDeployResult: aSummary({ id: "theirs" }) } });
  await pass(20_000);
  edit(12);
  await pass(20_000);
  expect(asked).toEqual([]);
});

test("what Redis does not take is asked for again", async () => {
  const { loop, edit, pass, asked, state } = useWaking();
  await loop();
  state.down = true;
  edit(11);
  await pass(2_000);
  state.down = false;
  await pass(60_000);
  expect(asked).toHaveLength(1);
});

test("nobody looks at what is suspended or gone", async () => {
  const { loop, edit, pass, asked, state, remove } = useWaking();
  await loop();
  state.deployment = aStanding({ spec: { suspend: true } });
  edit(11);
  await pass(20_000);
  state.deployment = aStanding();
  remove();
  edit(12);
  await pass(20_000);
  expect(asked).toEqual([]);
});
