import { onTestFinished, expect, test, vi } from "vitest";
import type { Deployment, DeploymentChange, Request } from "../../../../src/model.ts";
import { startDriftWaking } from "../../../../src/skipping/drift-waking.ts";
import { aSummary } from "../../../support/deployments.ts";
import { silentLog } from "../../../support/fakes.ts";
import { ready } from "../../../support/reconciling.ts";
import { aRendered, aSkippingWorld, aStanding, settingsId, settingsVersion } from "../../../support/skipping.ts";

function useWaking(deployment: Deployment = aStanding()) {
  vi.useFakeTimers();
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

test("an edit of an applied object is checked soon, and several edits at the same time once", async () => {
  const { loop, edit, pass, asked } = useWaking();
  await loop();
  edit(11);
  edit(12);
  await pass(1_000);
  expect(asked).toMatchObject([{ kind: "reconcile", deployment: { name: "prod" }, cause: "drift" }]);
  await pass(600_000);
  expect(asked).toHaveLength(1);
});

test("an edit is checked although the watch of another kind was down at that moment", async () => {
  const { loop, edit, pass, asked, applied } = useWaking();
  await loop();
  const { find } = applied;
  applied.find = () => ({ unknown: "its objects are being listed" });
  edit(11);
  await pass(10_000);
  expect(asked).toEqual([]);
  applied.find = find;
  await pass(60_000);
  expect(asked).toHaveLength(1);
});

test("objects that nothing else asks for are looked at every hour, so that their watches do not end", async () => {
  const { loop, pass, applied } = useWaking();
  await loop();
  await pass(60_000);
  let looks = 0;
  const { find } = applied;
  applied.find = (...asked) => {
    looks++;
    return find(...asked);
  };
  await pass(3 * 3_600_000);
  expect(looks).toBe(3);
});

test("a deleted object and a new one are checked too", async () => {
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

test("objects that are applied during a reconciliation are not drift, whenever the watch reports them", async () => {
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
  // The watch may be late and report the previous version.
  edit(9);
  applied.state.objects.delete(settingsId);
  await pass(60_000);
  expect(asked).toEqual([]);
});

test("an edit during a reconciliation is checked afterwards", async () => {
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

test("an object that a controller writes all the time is checked less and less often", async () => {
  const { loop, edit, pass, asked } = useWaking();
  await loop();
  for (let second = 0; second < 1_000; second++) {
    edit(11 + second);
    await pass(1_000);
  }
  expect(asked.length).toBeGreaterThan(5);
  expect(asked.length).toBeLessThan(20);
});

test("a check waits while another server reconciles, and that server's deploy is not drift", async () => {
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

test("a request that Redis did not accept is repeated", async () => {
  const { loop, edit, pass, asked, state } = useWaking();
  await loop();
  state.down = true;
  edit(11);
  await pass(2_000);
  state.down = false;
  await pass(60_000);
  expect(asked).toHaveLength(1);
});

test("a suspended or deleted deployment is not checked", async () => {
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
