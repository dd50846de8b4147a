import { expect, test, vi } from "vitest";
import type { Cause, Outcome, ReconcileRequest } from "../../../src/model.ts";
import { aDeployment } from "../../support/deployments.ts";
import { aRequest, failedSoon, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";
import { aWorld, key, upToDate } from "../../support/reconciling.ts";

const causes = ["push", "sweep", "change", "drift"] as const satisfies readonly Cause[];
const nothing = { waiting: 0, active: 0, delayed: 0 };

const ask = (cause: Cause, more: Partial<ReconcileRequest> = {}): ReconcileRequest => ({
  ...aRequest(key.name, cause, more),
  deployment: key,
});

/**
 * A deployment that is already at the commit of its branch: drift is the only reason to compare it with the cluster.
 */
async function useReconciling() {
  const world = aWorld(aDeployment({ key, status: upToDate }));
  const outcomes: (Outcome | "busy")[] = [];
  const reconcile = async (request: ReconcileRequest) => {
    const outcome = await world.reconcile(request, world.attempt());
    outcomes.push(outcome);
    return outcome;
  };
  return { ...(await useQueue()), reconcile, outcomes };
}

test.for(causes)("drift that joins a waiting job with the cause %s is handled, and vice versa", async (cause) => {
  for (const [first, second] of [
    [cause, "drift"],
    ["drift", cause],
  ] as const) {
    const { queue, work, reconcile, outcomes } = await useReconciling();
    await queue.enqueue([ask(first)]);
    await queue.enqueue([ask(second)]);
    await queue.enqueue([ask(first)]);

    work(reconcile);
    await vi.waitFor(() => expect(outcomes).toHaveLength(1), patience);
    expect(outcomes).toMatchObject([{ kind: "done" }]);
    await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  }
});

test.for(causes)("drift is handled even if a request with the cause %s replaces it", async (cause) => {
  const { queue, work, reconcile, outcomes } = await useReconciling();
  const running = gate();
  let runs = 0;
  work(async (request) => {
    runs++;
    if (runs > 1) return reconcile(request);
    await running.opened;
    return { kind: "skipped", why: "nothing to do" };
  });
  await queue.enqueue([ask("interval")]);
  await vi.waitFor(() => expect(runs).toBe(1), patience);
  await queue.enqueue([ask("drift")]);
  await queue.enqueue([ask(cause)]);
  running.open();

  await vi.waitFor(() => expect(outcomes).toHaveLength(1), patience);
  expect(outcomes).toMatchObject([{ kind: "done" }]);
});

test.for(causes)("drift that waits for a retry is not lost when a request with the cause %s arrives", async (cause) => {
  const { queue, work, reconcile, outcomes } = await useReconciling();
  let tries = 0;
  work(async (request) => {
    tries++;
    return tries < 4 ? failedSoon : reconcile(request);
  });
  await queue.enqueue([ask("drift")]);
  await vi.waitFor(() => expect(tries).toBe(3), patience); // the next try is 4 s away
  await vi.waitFor(async () => expect(await queue.depth()).toMatchObject({ delayed: 1 }), patience);
  await queue.enqueue([ask(cause)]);

  await vi.waitFor(() => expect(outcomes).toHaveLength(1), patience);
  expect(outcomes).toMatchObject([{ kind: "done" }]);
});

test("causes that were handled are not passed to the next job, and causes that arrived meanwhile are", async () => {
  const { queue, work } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const second = gate();
  work(async (request) => {
    runs.push(request);
    if (runs.length === 2) await second.opened;
    return { kind: "done" };
  });
  const run = async (...requests: ReconcileRequest[]) => {
    const count = runs.length + 1;
    await queue.enqueue(requests);
    await vi.waitFor(() => expect(runs).toHaveLength(count), patience);
  };

  await run(ask("push"), ask("drift"), ask("change"));
  await run(ask("push"));
  await queue.enqueue([ask("drift")]);
  second.open();
  await vi.waitFor(() => expect(runs).toHaveLength(3), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  await run(ask("sweep"));

  expect(runs.map(({ cause, also = [] }) => [cause, also.toSorted()])).toEqual([
    ["push", ["change", "drift"]],
    ["push", []],
    ["drift", []],
    ["sweep", []],
  ]);
});

test("concurrent requests of several servers lose no cause", async () => {
  const server = await useQueue();
  const others = await Promise.all([1, 2, 3].map(() => useQueue(server)));
  for (let round = 0; round < 20; round++) {
    const queues = [server, ...others].map(({ queue }) => queue);
    await Promise.all(queues.map((queue, i) => queue.enqueue([ask(causes[(i + round) % 4] as Cause)])));
    const runs: ReconcileRequest[] = [];
    const worker = server.work(async (request) => {
      runs.push(request);
      return { kind: "done" };
    });
    const told = () => new Set(runs.flatMap(({ cause, also = [] }) => [cause, ...also]));
    await vi.waitFor(() => expect(told()).toEqual(new Set(causes)), patience);
    await worker.stop(1_000);
  }
});
