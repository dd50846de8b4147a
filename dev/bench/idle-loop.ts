/** The cost of a reconciliation that finds nothing to do: Towline and the peer, one after the other. */
import { setTimeout as delay } from "node:timers/promises";
import { isReady } from "./cluster.ts";
import { type Measurement, milliseconds, type Report, type Table } from "./measurement.ts";
import { specOf } from "./project.ts";
import type { Stage } from "./stage.ts";
import { totals } from "./timeline.ts";
import { growth, type Ran, type Towline } from "./towline.ts";
import { cpuSeconds } from "./usage.ts";

/**
 * Numbers of deployments. Each reconciliation bears a share of the server's idle cost, which is larger with fewer of
 * them.
 */
const few = 3;
const some = 20;
/**
 * By then each server has reconciled all deployments, and the 20 have been reconciled often enough for V8 to compile
 * the hot code.
 */
const settleMs = 60_000;
const goalRatios = { wall: 0.7, CPU: 0.3 };
const whyMissed =
  "more than half of it is kluctl itself, which is started for each reconciliation and then compares the objects with dry runs; kluctl's controller does the same in a process that is already running. A quarter is used by the server, and the rest by the renderers.";

export interface Cost {
  readonly loops: number;
  /** Mean of one reconciliation in milliseconds. */
  readonly wallMs: number;
  readonly cpuMs: number;
}

/** Totals so far. */
interface Count {
  readonly loops: number;
  readonly wallMs: number;
}

export const idleLoop: Measurement = {
  name: "idle",
  title: "Reconciliations with nothing to do that are not skipped",
  async run(stage) {
    const forMs = stage.quick ? 22_000 : 42_000;
    const [oursFew, peerFew] = [await measureOurs(stage, few, forMs), await measurePeer(stage, forMs)];
    const ours = await measureOurs(stage, some, forMs);
    const peer = await measurePeer(stage, forMs, "bench-idle-peer", some);
    const ratio = (of: (cost: Cost) => number) => of(ours) / of(peer);
    const ratioOfFew = (of: (cost: Cost) => number) => of(oursFew) / of(peerFew);
    const goal = (what: keyof typeof goalRatios, of: (cost: Cost) => number) => ({
      what: `reconciliation with nothing to do: ${what} time, Towline / kluctl's controller`,
      wanted: `≤ ${goalRatios[what]}`,
      measured: ratio(of).toFixed(2),
      met: ratio(of) <= goalRatios[what],
      why: whyMissed,
    });
    const row = (who: string, { loops, wallMs, cpuMs }: Cost) => [
      who,
      String(loops),
      milliseconds(wallMs),
      milliseconds(cpuMs),
    ];
    return {
      how:
        `${few} deployments of three objects with \`interval: 10s\`, then ${some} of them, reconciled one at a time and measured for ${Math.round(forMs / 1_000)} s each, a minute after their first deploys. ` +
        "CPU is user and system time of the server and everything it started, including what it uses while idle, divided by the number of reconciliations. " +
        `The goals apply to ${some} deployments.`,
      tables: [
        {
          head: ["mean per reconciliation", "reconciliations", "wall time", "CPU time"],
          rows: [
            row(`towline, ${few} deployments`, oursFew),
            row(`kluctl controller run, ${few} deployments`, peerFew),
            ["ratio", "", ratioOfFew(({ wallMs }) => wallMs).toFixed(2), ratioOfFew(({ cpuMs }) => cpuMs).toFixed(2)],
            row(`towline, ${some} deployments`, ours),
            row(`kluctl controller run, ${some} deployments`, peer),
            ["ratio", "", ratio(({ wallMs }) => wallMs).toFixed(2), ratio(({ cpuMs }) => cpuMs).toFixed(2)],
          ],
        },
        whereItGoes(ours),
      ],
      goals: [goal("wall", ({ wallMs }) => wallMs), goal("CPU", ({ cpuMs }) => cpuMs)],
      memory: [],
    } satisfies Report;
  },
};

async function measureOurs(stage: Stage, count: number, forMs: number): Promise<Cost & { ran: readonly Ran[] }> {
  const namespace = `bench-idle-${count}`;
  const start = await prepare(stage, namespace, count);
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 1, fullInterval: "0s" });
  await start();
  const known = (await server.processes()).length;
  const cost = await measure(server.pid, () => countOurs(server), forMs);
  const ran = (await server.processes()).slice(known);
  await server.stop();
  return { ...cost, ran };
}

/** From the start of the job to its end, which covers more than the peer's own figure. */
async function countOurs(server: Towline): Promise<Count> {
  const of = async (what: string) =>
    growth(new Map(), await server.metrics(), `towline_reconcile_duration_seconds_${what}`);
  return { loops: await of("count"), wallMs: (await of("sum")) * 1_000 };
}

/** The peer with deployments that have nothing to do. */
export async function measurePeer(
  stage: Stage,
  forMs: number,
  name = "bench-idle-peer",
  deployments = few,
): Promise<Cost> {
  const namespace = `${name}-${deployments}`;
  const start = await prepare(stage, namespace, deployments);
  const peer = await stage.startPeer({ name: namespace, namespace, concurrency: 1 });
  await start();
  const count = async () => {
    const loops = await peer.loops();
    return { loops: loops.length, wallMs: loops.reduce((sum, ms) => sum + ms, 0) };
  };
  const cost = await measure(peer.pid, count, forMs);
  await peer.stop();
  return cost;
}

/** Time by process; the rest is the server's own work and its requests to the API server. */
function whereItGoes({ loops, wallMs, ran }: Cost & { ran: readonly Ran[] }): Table {
  const parts = [...totals(ran)].map(([name, ms]) => [name, ms / loops] as const);
  const rest = wallMs - parts.reduce((sum, [, ms]) => sum + ms, 0);
  const rows = [...parts, ["everything else", rest] as const].map(([name, ms]) => [name, milliseconds(ms)]);
  return { head: ["wall time of a Towline reconciliation", "mean"], rows };
}

/**
 * Returns a function that creates the deployments and resolves when they are deployed and have been reconciled once
 * more.
 */
async function prepare(stage: Stage, namespace: string, count: number): Promise<() => Promise<void>> {
  const deployments = Array.from({ length: count }, (_, index) => `shop-${index + 1}`);
  const { url, first } = await stage.giteaRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const seen = await stage.cluster.watch("KluctlDeployment", namespace);
  stage.defer(() => seen.stop());
  return async () => {
    for (const name of deployments) {
      await stage.cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "10s" }));
    }
    await seen.until("the first deploys", (all) => deployments.every((name) => isReady(all.get(name), first)), 120_000);
    await delay(stage.quick ? 11_000 : settleMs);
  };
}

export async function measure(pid: number, count: () => Promise<Count>, forMs: number): Promise<Cost> {
  const [before, cpuBefore] = [await count(), cpuSeconds(pid)];
  await delay(forMs);
  const [after, cpuAfter] = [await count(), cpuSeconds(pid)];
  const loops = after.loops - before.loops;
  if (loops === 0) throw new Error(`No reconciliation ended in ${forMs / 1_000} s.`);
  return { loops, wallMs: (after.wallMs - before.wallMs) / loops, cpuMs: ((cpuAfter - cpuBefore) * 1_000) / loops };
}
