import { expect, test } from "vitest";
import { createDueSweep, type DueAt, type SkipCheck } from "../../../jobs/sweeps/due-sweep.ts";
import { fractionOf } from "../../../jobs/sweeps/rotation.ts";
import {
  type Deployment,
  keyText,
  type MalformedDeployment,
  type Request,
  requestAnnotation,
} from "../../../src/model.ts";
import { dueAt as realDueAt } from "../../../src/reconcile/due.ts";
import { createRetries } from "../../../src/reconcile/retries.ts";
import { aDeployment, aSpec, aStatus } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";

const minute = 60_000;
const start = Date.parse("2026-01-01T00:00:00Z");

function useSweep(deployments: (Deployment | MalformedDeployment)[], dueAt: DueAt, skipCheck?: SkipCheck) {
  const asked: Request[] = [];
  const moved: string[] = [];
  let now = start;
  let down = false;
  const clock = { now: () => now };
  const sweep = createDueSweep({
    deployments: { all: () => deployments },
    dueAt,
    skipCheck,
    queue: {
      enqueue: async (requests, repos = []) => {
        if (down) throw new Error("Redis is away");
        asked.push(...requests);
        moved.push(...repos);
        return { queued: requests.length };
      },
    },
    againMs: () => minute,
    retries: createRetries(clock),
    clock,
    log: silentLog,
  });
  return {
    asked,
    moved,
    sweep,
    pass: (ms: number) => void (now += ms),
    redis: (state: "up" | "down") => void (down = state === "down"),
    now: () => now,
  };
}

const named = (name: string, intervalMs = 10 * minute) =>
  aDeployment({ key: { namespace: "apps", name }, spec: aSpec({ intervalMs }) });

test("a due deployment is requested once, not by every run of the sweep", async () => {
  const { sweep, asked, pass } = useSweep([named("shop")], () => start - minute - 10 * minute);

  for (let i = 0; i < 30; i++) {
    await sweep.run();
    pass(1_000);
  }

  expect(asked).toMatchObject([{ deployment: { name: "shop" }, cause: "interval" }]);
});

test("a user's request that Redis lost is requested again as manual, not as an interval", async () => {
  const annotations = { [requestAnnotation("deploy")]: "now" };
  const { sweep, asked } = useSweep([named("shop"), { ...named("asked"), annotations }], realDueAt);
  await sweep.run();
  const causes = asked.map((request) => request.kind === "reconcile" && [request.deployment.name, request.cause]);
  expect(causes).toEqual([
    ["shop", "interval"],
    ["asked", "manual"],
  ]);
});

test("a request that Redis did not accept waits neither for an earlier request nor for the next full sweep", async () => {
  const shop = { ...named("shop"), generation: 1, status: aStatus({ observedGeneration: 1 }) };
  const wanting = (value: string) => ({ ...shop, annotations: { [requestAnnotation("validate")]: value } });
  const deployments = [wanting("first")];
  const { sweep, asked, pass, redis } = useSweep(deployments, realDueAt);
  await sweep.run();
  expect(asked).toHaveLength(1);

  // The first request is answered, and the second one arrives when neither the watch nor this sweep can reach Redis.
  pass(1_500);
  deployments[0] = wanting("second");
  redis("down");
  await expect(sweep.run()).rejects.toThrow("Redis is away");
  redis("up");
  pass(1_000);
  await sweep.run();
  expect(asked).toHaveLength(2);

  // Redis accepted the request and lost it.
  for (let second = 0; second < 5; second++) {
    pass(1_000);
    await sweep.run();
  }
  expect(asked).toHaveLength(3);
  expect(asked).toMatchObject([{ cause: "manual" }, { cause: "manual" }, { cause: "manual" }]);
});

test("a deployment that is still due after a while is requested again, because Redis may have lost the request", async () => {
  const { sweep, asked, pass } = useSweep([named("shop")], (_d, _last, now) => now);

  await sweep.run();
  pass(minute - 1);
  await sweep.run();
  expect(asked).toHaveLength(1);
  pass(1);
  await sweep.run();

  expect(asked).toHaveLength(2);
});

test("the next due time is requested, however soon it comes", async () => {
  let due = start - 5_000;
  const { sweep, asked, pass } = useSweep([named("shop", 5_000)], () => due);

  await sweep.run();
  due += 5_000;
  pass(5_000);
  await sweep.run();

  expect(asked).toHaveLength(2);
});

test("while Redis is unavailable nothing counts as requested", async () => {
  const { sweep, asked, redis } = useSweep([named("shop")], (_d, _last, now) => now);

  redis("down");
  await expect(sweep.run()).rejects.toThrow("Redis is away");
  redis("up");
  await sweep.run();

  expect(asked).toHaveLength(1);
});

test("deployments that fall due at the same time are spread over a tenth of their interval", async () => {
  const deployments = Array.from({ length: 100 }, (_, i) => named(`d${i}`, 5 * minute));
  const { sweep, asked, pass } = useSweep(deployments, () => start);

  const each: number[] = [];
  for (let second = 0; second <= 30; second++) {
    pass(1_000);
    const before = asked.length;
    await sweep.run();
    each.push(asked.length - before);
  }

  expect(asked).toHaveLength(100);
  expect(Math.max(...each)).toBeLessThan(20);
});

test("requests that a user waits for are not spread", async () => {
  const deployments = Array.from({ length: 100 }, (_, i) => named(`d${i}`));
  const { sweep, asked } = useSweep(deployments, (_d, _last, now) => now);

  await sweep.run();

  expect(asked).toHaveLength(100);
});

test("the watch shows the end of a reconciliation, even if it left no other trace", async () => {
  const reconciling = aStatus({
    observedGeneration: 1,
    conditions: [
      {
        type: "Reconciling",
        status: "True",
        reason: "Progressing",
        message: "",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ],
  });
  const running = { ...named("shop"), generation: 1, status: reconciling };
  const failed = { ...running, status: aStatus({ observedGeneration: 1, lastPrepareError: "no such target" }) };
  const { sweep, asked, pass } = useSweep([failed], realDueAt);

  sweep.note({ kind: "changed", deployment: failed, previous: running });
  pass(1_000);
  await sweep.run();
  expect(asked).toHaveLength(0);

  sweep.note({ kind: "removed", deployment: failed });
  await sweep.run();
  expect(asked).toHaveLength(1);
});

test("a short retry interval is spread by its own length, not by that of the long interval", async () => {
  const running = (name: string) => ({
    ...named(name, 60 * minute),
    status: aStatus({
      conditions: [{ type: "Reconciling", status: "True", reason: "", message: "", lastTransitionTime: "" }],
    }),
  });
  const all = Array.from({ length: 20 }, (_, i) => named(`d${i}`, 60 * minute));
  const { sweep, asked, pass } = useSweep(all, (_d, { lastLoopAt = 0 }) => lastLoopAt + 2_000);

  for (const deployment of all) {
    sweep.note({ kind: "changed", deployment, previous: running(deployment.key.name) });
  }
  pass(2_200);
  await sweep.run();

  expect(asked).toHaveLength(20);
});

test("a deployment that cannot be parsed is requested without a repository", async () => {
  const { spec: _spec, repo: _repo, ...identity } = named("broken");
  const { sweep, asked } = useSweep(
    [{ ...identity, problem: "spec.interval: not a duration" }],
    (_d, _last, now) => now,
  );

  await sweep.run();

  expect(asked).toEqual([
    { kind: "reconcile", deployment: { namespace: "apps", name: "broken" }, cause: "interval", repo: undefined },
  ]);
});

test("fractions are evenly distributed and always the same for a key", () => {
  const fractions = Array.from({ length: 1_000 }, (_, i) => fractionOf(keyText({ namespace: "apps", name: `d${i}` })));
  const tenths = Array.from({ length: 10 }, (_, i) => fractions.filter((f) => Math.floor(f * 10) === i).length);

  expect(Math.min(...tenths)).toBeGreaterThan(60);
  expect(fractionOf("a")).toBe(fractionOf("a"));
});

test("a skipped reconciliation is not requested, and the next one is due an interval later", async () => {
  const answers: Awaited<ReturnType<SkipCheck>>[] = ["later", "skipped", "check"];
  let spared = 0;
  const skipCheck: SkipCheck = async () => answers[spared++] ?? "check";
  const looked = new Date(start - 20 * minute).toISOString();
  const status = aStatus({
    observedGeneration: 1,
    conditions: [{ type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: looked }],
    lastDriftDetectionResult: { document: {}, endTime: looked },
  });
  const { sweep, asked, pass } = useSweep([{ ...named("shop"), status }], realDueAt, skipCheck);
  const run = async () => {
    await sweep.run();
    await new Promise(setImmediate);
  };

  await run();
  expect([spared, asked.length]).toEqual([1, 0]);
  await run();
  await run();
  expect([spared, asked.length]).toEqual([2, 0]);
  pass(11 * minute);
  await run();
  expect(spared).toBe(3);
  expect(asked).toMatchObject([{ cause: "interval" }]);
});

test("a slow skip check delays no other deployment, and is not started twice", async () => {
  let spared = 0;
  const never: SkipCheck = () => {
    spared++;
    return new Promise(() => undefined);
  };
  const asks = { ...named("asks"), annotations: { [requestAnnotation("deploy")]: "now" } };
  const { sweep, asked } = useSweep([named("shop"), asks], () => start - 20 * minute, never);
  await sweep.run();
  await sweep.run();
  await new Promise(setImmediate);
  expect(spared).toBe(1);
  expect(asked).toMatchObject([{ deployment: { name: "asks" }, cause: "manual" }]);
});

test("a deployment due at once needs a fresh answer of the remote, and one due by its interval does not", async () => {
  const [edited, waits] = [named("edited"), named("waits")];
  const { sweep, moved, asked } = useSweep([edited, waits], ({ key }, _, now) =>
    key.name === "edited" ? now : now - 20 * minute,
  );
  await sweep.run();
  expect(asked).toHaveLength(2);
  expect(moved).toEqual([edited.repo]);
});

test("an interrupted reconciliation is requested a minute after its last sign of life, and again soon afterwards", async () => {
  const at = (conditions: object[], resourceVersion: string) =>
    aDeployment({
      spec: { intervalMs: 1_440 * minute },
      status: aStatus({ ...upToDate(conditions) }),
      resourceVersion,
    });
  const condition = (type: string, status: string) => ({
    type,
    status,
    reason: "",
    message: "",
    lastTransitionTime: "",
  });
  const previous = at([condition("Ready", "True")], "1");
  const deployment = at([condition("Ready", "Unknown"), condition("Reconciling", "True")], "2");
  const { sweep, asked, pass } = useSweep([deployment], realDueAt);
  sweep.note({ kind: "changed", deployment, previous });
  pass(30_000);
  const [ready, reconciling] = [condition("Ready", "Unknown"), condition("Reconciling", "True")];
  const further = at([ready, { ...reconciling, message: "Performing validate" }], "3");
  sweep.note({ kind: "changed", deployment: further, previous: deployment });
  pass(25_000);
  sweep.note({ kind: "changed", deployment: { ...further, resourceVersion: "4" }, previous: further }); // a label

  pass(30_000);
  expect(await sweep.run()).toBe(0);
  pass(15_000);
  expect(await sweep.run()).toBe(1);
  expect(await sweep.run()).toBe(0);
  pass(15_000);
  expect(await sweep.run()).toBe(1);
  expect(asked).toMatchObject([{ cause: "interval" }, { cause: "interval" }]);
});

function upToDate(conditions: object[]) {
  const lastDriftDetectionResult = { document: {}, endTime: "2026-01-01T00:00:00Z" };
  return { observedGeneration: 1, conditions: conditions as never, lastDriftDetectionResult };
}

test("a deployment that stays blocked by a dependency is requested once a minute, whatever its interval", async () => {
  const conditions = [
    {
      type: "Ready",
      status: "Unknown",
      reason: "DependencyNotReady",
      message: "",
      lastTransitionTime: "2026-01-01T00:00:00Z",
    } as const,
  ];
  const lastDriftDetectionResult = { document: {}, endTime: "2026-01-01T00:00:00Z" };
  const blocked = aDeployment({
    ...named("shop", 24 * 60 * minute),
    status: { observedGeneration: 1, conditions, lastDriftDetectionResult },
  });
  const { sweep, asked, pass } = useSweep([blocked], realDueAt);
  for (let passed = 0; passed < 5 * minute; passed += 997) {
    await sweep.run();
    pass(997);
  }
  expect(asked.length).toBeGreaterThanOrEqual(2);
  expect(asked.length).toBeLessThanOrEqual(4);
});
