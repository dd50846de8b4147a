import { expect, test } from "vitest";
import { createDueSweep } from "../../../jobs/sweeps/due-sweep.ts";
import { type Condition, type Deployment, type DeploymentStatus, requestAnnotation } from "../../../src/model.ts";
import { dueAt } from "../../../src/reconcile/due.ts";
import { createRetries } from "../../../src/reconcile/retries.ts";
import { aDeployment, aSummary, type aSpec } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

const second = 1_000;
const minute = 60 * second;
const start = Date.parse("2026-01-01T00:00:00Z");

/** A deployment that always fails, the sweep that requests it, and a clock that the test controls. */
function useFailing(spec: Partial<ReturnType<typeof aSpec>> = {}, againMs = minute) {
  let now = start;
  let tries = 0;
  const clock = { now: () => now };
  const time = () => new Date(now).toISOString();
  const ready = (status: Condition["status"]): Condition => ({
    type: "Ready",
    status,
    reason: status === "False" ? "DeployFailed" : "Progressing",
    message: "",
    lastTransitionTime: time(),
  });
  const reconciling = (): Condition => ({ ...ready("True"), type: "Reconciling" });
  const changed = (deployment: Deployment, status: Partial<DeploymentStatus>) => ({
    ...deployment,
    status: { ...deployment.status, ...status },
  });
  let current: Deployment = aDeployment({
    spec: { intervalMs: 10 * minute, ...spec },
    status: { observedGeneration: 1, observedCommit: "c1", lastObjectsHash: "h1" },
  });
  let asked = 0;

  function begin() {
    const retries = createRetries(clock);
    const sweep = createDueSweep({
      deployments: { all: () => [current] },
      dueAt,
      retries,
      queue: {
        enqueue: async ({ length }) => {
          asked += length;
          return { queued: length };
        },
      },
      againMs: () => againMs,
      clock,
      log: silentLog,
    });
    return { retries, sweep };
  }
  let { retries, sweep } = begin();

  function become(deployment: Deployment): void {
    const previous = current;
    current = deployment;
    sweep.note({ kind: "changed", deployment, previous });
  }

  function loop(status: () => Partial<DeploymentStatus>, tookMs = 0): void {
    become(changed(current, { conditions: [ready("Unknown"), reconciling()] }));
    now += tookMs;
    become(changed(current, { conditions: [ready("False")], ...status() }));
  }

  return {
    fail(tookMs = 0, status: Partial<DeploymentStatus> = {}) {
      loop(
        () => ({ lastDeployResult: aSummary({ id: `try-${++tries}`, errors: 1, endTime: time() }), ...status }),
        tookMs,
      );
    },
    /** A reconciliation that did not deploy. */
    look: () => loop(() => ({})),
    become,
    current: () => current,
    retryAt: () => (retries.nextAt(current) ?? NaN) - now,
    pass: (ms: number) => void (now += ms),
    restart: () => void ({ retries, sweep } = begin()),
    async requests(): Promise<number> {
      const before = asked;
      await sweep.run();
      return asked - before;
    },
    /** The seconds until each of the sweep's requests; each request fails at once. */
    async pauses(count: number): Promise<number[]> {
      const waited: number[] = [];
      let since = now;
      for (let i = 0; waited.length < count && i < 10_000; i++) {
        const before = asked;
        await sweep.run();
        if (asked > before) {
          waited.push((now - since) / second);
          this.fail();
          since = now;
        }
        now += second;
      }
      return waited;
    },
  };
}

/** The sweep spreads due deployments over a tenth of their pause. */
function expectAbout(pauses: readonly number[], wanted: readonly number[]): void {
  expect(pauses).toHaveLength(wanted.length);
  for (const [i, pause] of pauses.entries()) {
    expect(pause).toBeGreaterThanOrEqual(wanted[i] as number);
    expect(pause).toBeLessThanOrEqual((wanted[i] as number) * 1.1 + 2);
  }
}

test("a retry whose attempts leave no trace is requested again within minutes, however rarely sweeps run", async () => {
  const failing = useFailing({ intervalMs: 24 * 60 * minute }, 24 * 60 * minute);
  failing.fail();
  failing.pass(40 * second);
  expect(await failing.requests()).toBe(1);
  failing.pass(30 * second);
  expect(await failing.requests()).toBe(0); // it has attempts left

  failing.pass(60 * second);

  expect(await failing.requests()).toBe(1);
});

test("a failure is retried after a pause that doubles up to the interval", async () => {
  const failing = useFailing();
  failing.fail();
  expectAbout(await failing.pauses(7), [30, 60, 120, 240, 480, 600, 600]);
});

test("a retry interval is the pause, whether the interval is shorter or longer", async () => {
  const patient = useFailing({ retryIntervalMs: 5 * minute });
  patient.fail();
  expectAbout(await patient.pauses(3), [300, 300, 300]);
  const eager = useFailing({ intervalMs: 10 * second });
  eager.fail();
  expectAbout(await eager.pauses(3), [10, 10, 10]);
});

test("the queue's quick attempts count as one, and the pause starts after the last of them", () => {
  const failing = useFailing();
  for (const ms of [1, 2, 4, 8]) {
    failing.fail();
    failing.pass(ms * second);
  }
  failing.fail();
  expect(failing.retryAt()).toBe(30 * second);
});

test("a retry whose end the watch did not show is requested again after the interval, however rare sweeps are", async () => {
  const failing = useFailing({ intervalMs: minute }, 24 * 60 * minute);
  failing.fail();
  failing.pass(40 * second);
  expect(await failing.requests()).toBe(1); // it starts and fails while the watch is being opened again
  failing.pass(59 * second);
  expect(await failing.requests()).toBe(0);
  failing.pass(second);
  expect(await failing.requests()).toBe(1);
});

test("a reconciliation without a deploy neither delays the next retry nor lengthens the pause", () => {
  const failing = useFailing();
  failing.fail();
  failing.pass(20 * second);
  failing.look();
  expect(failing.retryAt()).toBe(10 * second);
  // The retry could not deploy, for example because it waits for an approval, so it is not requested again and again.
  failing.pass(15 * second);
  failing.look();
  expect(failing.retryAt()).toBe(60 * second);
});

test("a new commit, a changed spec and a request each reset the pauses", async () => {
  const failing = useFailing();
  const grow = async () => {
    failing.fail();
    await failing.pauses(4);
    expect(failing.retryAt()).toBeGreaterThan(4 * minute);
  };

  await grow();
  failing.fail(0, { observedCommit: "c2" });
  expect(failing.retryAt()).toBe(30 * second);

  await grow();
  failing.become({ ...failing.current(), generation: 2 });
  failing.fail(0, { observedGeneration: 2 });
  expect(failing.retryAt()).toBe(30 * second);

  await grow();
  failing.become({ ...failing.current(), annotations: { [requestAnnotation("reconcile")]: "now" } });
  failing.become({ ...failing.current(), annotations: {} });
  failing.fail();
  expect(failing.retryAt()).toBe(30 * second);
});

test("a success resets the pauses", () => {
  const failing = useFailing();
  failing.fail();
  const fine = failing.current();
  failing.become({ ...fine, status: { ...fine.status, conditions: [] } });
  expect(failing.retryAt()).toBeNaN();
  failing.pass(minute);
  failing.fail();
  expect(failing.retryAt()).toBe(30 * second);
});

test("a deployment that waits for its first approval has not failed", () => {
  const waiting = useFailing({ manual: true });
  waiting.look();
  expect(waiting.retryAt()).toBeNaN();
  const approved = useFailing({ manual: true, manualObjectsHash: "h1" });
  approved.fail();
  expect(approved.retryAt()).toBe(30 * second);
});

test("health checks whose annotation is invalid are not retried, and those that failed are", () => {
  const because = (reason: string) => {
    const failing = useFailing();
    const ready: Condition = { type: "Ready", status: "False", reason, message: "", lastTransitionTime: "" };
    failing.fail(0, { conditions: [ready] });
    return failing.retryAt();
  };
  expect(because("HealthCheckInvalid")).toBeNaN();
  expect(because("HealthCheckFailed")).toBe(30 * second);
});

test("a deploy that takes long to fail is retried only after the same time", () => {
  const failing = useFailing();
  failing.fail(5 * minute);
  expect(failing.retryAt()).toBe(5 * minute);
});

test.each([
  { agoS: 10, waitsS: 20 },
  { agoS: 45, waitsS: 15 },
  { agoS: 300, waitsS: 180 },
  { agoS: 3_600, waitsS: -3_000 },
])(
  "$agoS s after the last attempt, a restarted server continues with the pause that it would have reached",
  ({ agoS, waitsS }) => {
    const failing = useFailing();
    failing.fail();
    failing.pass(agoS * second);
    failing.restart();
    expect(failing.retryAt()).toBe(waitsS * second);
  },
);

test("a server that restarts again and again does not retry more often than one that runs", async () => {
  const failing = useFailing();
  failing.fail();
  let tries = 0;
  for (let i = 0; i < 60; i++) {
    failing.restart();
    for (let ran = 0; ran < 20; ran++) {
      if (failing.retryAt() <= 0) {
        failing.fail();
        tries++;
      }
      failing.pass(second);
    }
  }
  expect(tries).toBeLessThanOrEqual((20 * 60) / 30);
});
