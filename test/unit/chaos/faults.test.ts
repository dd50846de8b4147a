/** How faults are injected, with a world of which only the parts exist that these faults reach. */
import { afterEach, expect, test, vi } from "vitest";
import { createFaults, type Fault } from "../../../dev/chaos/faults.ts";
import type { Run } from "../../../dev/chaos/history.ts";
import type { JournalEvent } from "../../../dev/chaos/journal.ts";
import type { Stage } from "../../../dev/chaos/stage.ts";

afterEach(() => void vi.useRealTimers());

const run: Run = {
  id: "run-1",
  pid: 1,
  replica: "r1",
  command: "deploy",
  deployment: "shop",
  commit: "1".repeat(40),
  mutating: true,
  startedAt: 100,
  wrote: 0,
};

/** A world that records what is done to it; `reach` resolves when the run may continue. */
function aStage({ sweeps = true, isAlive = true } = {}) {
  const done: string[] = [];
  const story: string[] = [];
  let listener: ((event: JournalEvent) => void | Promise<void>) | undefined;
  const names = ["r1", "r2"];
  const alive = new Set(isAlive ? names : []);
  const replicas = names.map((name) => ({
    name,
    api: { close: () => Promise.resolve(done.push(`${name} cannot reach the API server`)), open: () => undefined },
    redis: { cut: () => done.push(`${name} lost its connection to Redis`) },
    isAlive: () => alive.has(name),
    kill: () => alive.delete(name),
    ended: () => Promise.resolve(),
    start: () => alive.add(name),
    signalStarter: () => isAlive,
    setClock: (ms: number) => Promise.resolve(ms !== 0),
    fillDisk: () => Promise.resolve(false),
    processes: () => [],
  }));
  const act = (what: string) => Promise.resolve(isAlive && done.push(what) > 0);
  const redis = {
    flush: () => act("Redis is empty"),
    kill: () => act("Redis is dead"),
    remember: () => Promise.resolve(isAlive ? () => act("Redis is as it was") : undefined),
  };
  const journal = { onEvent: (given: typeof listener) => (listener = given), runs: () => [] };
  const stage = { sweeps, replicas, redis, journal, gitHost: {}, onComment: () => undefined, buried: new Set() };
  const reach = async (event: JournalEvent["event"]) => listener?.({ event, number: 0, run });
  const faults = createFaults(stage as unknown as Stage, (words) => void story.push(words));
  return { faults, done, story, reach, alive };
}

const pair: Fault = {
  name: "API away",
  moment: { event: "end", number: 0 },
  victim: 0,
  buries: false,
  second: { name: "Redis flushed", victim: 0, buries: false },
};
const away = ["r1 cannot reach the API server", "r2 cannot reach the API server"];

test("two faults strike at the same event of one run, before it continues", async () => {
  const { faults, done, reach } = aStage();
  await faults.strike(pair);
  await reach("start");
  expect({ done, isArmed: faults.isArmed(pair) }).toEqual({ done: [], isArmed: true });

  await reach("end");
  faults.disarm();

  expect(done).toEqual([...away, "Redis is empty"]);
  expect(faults.struck).toEqual(["API away (r1 at end)", "Redis flushed (r1 at end)"]);
  expect(faults.isArmed(pair)).toBe(false);
});

test("two faults strike once", async () => {
  const { faults, done, reach } = aStage();
  await faults.strike(pair);
  await reach("end");
  await reach("end");
  faults.disarm();
  expect(done).toHaveLength(3);
});

test("without sweeps, the second of two faults makes Redis lose nothing either", async () => {
  const { faults, done, reach } = aStage({ sweeps: false });
  await faults.strike(pair);
  await reach("end");
  faults.disarm();
  expect(done).toEqual([...away, "Redis is dead"]);
});

test.each([
  "kill",
  "terminate",
  "kill starter",
  "freeze kluctl",
  "kill renderers",
  "Redis lost",
  "Redis goes back",
  "Redis cut",
  "git lags",
  "forge away",
  "token rotated",
  "disk full",
] as const)("%s does not count as a fault that struck if there is nothing to strike", async (name) => {
  const { faults, done, story } = aStage({ isAlive: false });
  await faults.strike({ name, victim: 0, buries: true });
  faults.disarm();
  expect(done).toEqual([]);
  expect(faults.struck).toEqual([]);
  expect(story).toEqual([`  ${name} (r1): nothing to strike`]);
});

test("each victim's clock is set to another time", async () => {
  const { faults } = aStage();
  for (const victim of [0, 1, 2]) await faults.strike({ name: "clock set", victim, buries: false });
  expect(faults.struck).toEqual(["clock set (r1)", "clock set (r2)", "clock set (r1)"]);
});

/** Ends servers, and returns those that are alive after some time, each by its name. */
async function killed({ sweeps, faults: all }: { sweeps: boolean; faults: readonly Partial<Fault>[] }, ms: number) {
  vi.useFakeTimers();
  const { faults, alive } = aStage({ sweeps });
  for (const fault of all)
    await faults.strike({ name: "kill", victim: 0, buries: false, restartsAfterMs: 2_000, ...fault });
  await vi.advanceTimersByTimeAsync(ms);
  return [...alive].toSorted();
}

test.each(["kill", "kill and flush", "terminate"] as const)(
  "after %s, a server is started again after its time",
  async (name) => {
    expect(await killed({ sweeps: true, faults: [{ name }] }, 1_999)).toEqual(["r2"]);
    expect(await killed({ sweeps: true, faults: [{ name }] }, 2_000)).toEqual(["r1", "r2"]);
  },
);

test("a server that is killed for good stays dead, unless it is the last one", async () => {
  const both = [
    { victim: 0, buries: true },
    { victim: 1, buries: true },
  ];
  expect(await killed({ sweeps: true, faults: [{ buries: true }] }, 60_000)).toEqual(["r2"]);
  expect(await killed({ sweeps: true, faults: both }, 60_000)).toEqual(["r2"]);
});

test("without sweeps, a killed server stays dead while another one lives, and some server always comes back", async () => {
  const both = [{ victim: 0 }, { victim: 1 }];
  expect(await killed({ sweeps: false, faults: [{}] }, 60_000)).toEqual(["r2"]);
  expect(await killed({ sweeps: false, faults: both }, 60_000)).toEqual(["r1"]);
  expect(await killed({ sweeps: false, faults: [{}, { victim: 1, buries: true }] }, 60_000)).toEqual(["r1"]);
});

test("once the faults are disarmed, no server is started by itself", async () => {
  vi.useFakeTimers();
  const { faults, alive } = aStage();
  await faults.strike({ name: "kill", victim: 0, buries: false });
  faults.disarm();
  await faults.strike({ name: "kill", victim: 1, buries: false });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([...alive]).toEqual([]);
});

test("Redis that goes back counts once it is back, and not if everything is healed before", async () => {
  vi.useFakeTimers();
  const [back, healed] = [aStage(), aStage()];
  for (const { faults } of [back, healed])
    await faults.strike({ name: "Redis goes back", victim: 0, forMs: 2_000, buries: false });
  await vi.advanceTimersByTimeAsync(1_999);
  expect(back.faults.struck).toEqual([]);
  healed.faults.disarm();
  await vi.advanceTimersByTimeAsync(1);
  expect({ done: back.done, struck: back.faults.struck }).toEqual({
    done: ["Redis is as it was"],
    struck: ["Redis goes back (r1)"],
  });
  expect({ done: healed.done, struck: healed.faults.struck }).toEqual({ done: [], struck: [] });
});
