/** Runs a server at a steady rate and samples what it uses. */
import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { median, quantile } from "../bench/measurement.ts";
import { isReady, type KubernetesObject } from "../bench/cluster.ts";
import { growth as growthOf, leftOutLoops, type Towline } from "../bench/towline.ts";
import { gather, loops, settled } from "../bench/population.ts";
import { openRedisCounter } from "../bench/redis-count.ts";
import type { Stage } from "../bench/stage.ts";
import { startSampling } from "../bench/usage.ts";
import { type Bound, grows, riseOf } from "./growth.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly deployments: number;
  readonly repositories: number;
  /** Time between two pushes. */
  readonly everyMs: number;
  readonly sampleEveryMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onSample: (sample: Sample) => void;
}

export interface Sample {
  /** Minutes since the first push. */
  readonly minutes: number;
  /** Memory of the server alone, and with kluctl and its renderers. */
  readonly serverMegabytes: number;
  readonly allMegabytes: number;
  readonly heapMegabytes: number;
  /** Open files and sockets. */
  readonly descriptors: number;
  readonly redisMegabytes: number;
}

export interface SoakReport {
  readonly samples: readonly Sample[];
  /** Time from a push until all deployments of its repository are ready at it. */
  readonly pushes: readonly { readonly minutes: number; readonly seconds: number }[];
  /** Pushes that were due while the previous one was not done. */
  readonly skippedPushes: number;
  /** Reconciliations, and checks that were skipped because nothing can have changed. */
  readonly reconciliations: number;
  readonly skipped: number;
  readonly findings: readonly string[];
}

export type Measure = Exclude<keyof Sample, "minutes">;

export const measures: Readonly<
  Record<Measure, { readonly title: string; readonly unit: string; readonly bound: Bound }>
> = {
  serverMegabytes: { title: "Memory of the server", unit: "MB", bound: { share: 0.05, more: 8 } },
  allMegabytes: { title: "Memory with kluctl and its renderers", unit: "MB", bound: { share: 0.1, more: 64 } },
  heapMegabytes: { title: "Heap of the server", unit: "MB", bound: { share: 0.05, more: 8 } },
  descriptors: { title: "Files and sockets of the server", unit: "", bound: { share: 0, more: 5 } },
  redisMegabytes: { title: "Memory of Redis", unit: "MB", bound: { share: 0.05, more: 0.5 } },
};

const namespace = "soak";
const interval = "5m";
const megabyte = 1024 * 1024;

export async function playSoak(stage: Stage, options: SoakOptions): Promise<SoakReport> {
  const { deployments, repositories, everyMs, sampleEveryMs, signal } = options;
  const redis = await openRedisCounter(await stage.redisUrl());
  stage.defer(() => redis.close());
  const { all, start } = await gather(stage, {
    ...{ namespace, deployments, repositories, interval, upToDate: false, concurrency: 2 },
    servers: { sweep: "60s", auditSkips: 100 },
  });
  const { server } = await start("1");
  const isDone = (seen: ReadonlyMap<string, KubernetesObject>) =>
    all.names.every((name) => isReady(seen.get(name), all.first));
  await all.seen.until("the first deploys", isDone, firstWithinMs);
  await settled(server);

  const from = performance.now();
  const untilMs = options.minutes * 60_000;
  const isOver = () => performance.now() - from > untilMs || signal?.aborted === true;
  const minutes = () => (performance.now() - from) / 60_000;
  const before = await server.metrics();
  const samples: Sample[] = [];
  const pushes: { minutes: number; seconds: number }[] = [];
  const findings: string[] = [];
  let skippedPushes = 0;

  const sampling = (async () => {
    while (!isOver()) {
      const sample = { minutes: minutes(), ...(await takeSample(server, sampleEveryMs)) };
      const withRedis = { ...sample, redisMegabytes: (await redis.count()).bytes / megabyte };
      samples.push(withRedis);
      options.onSample(withRedis);
    }
  })();
  for (let number = 0; !isOver(); number++) {
    const at = minutes();
    try {
      pushes.push({ minutes: at, seconds: (await all.push(number % repositories, server)).ms / 1_000 });
    } catch (error) {
      findings.push(`push after ${at.toFixed(1)} minutes: ${(error as Error).message}`);
    }
    const passed = performance.now() - from;
    const next = Math.ceil(passed / everyMs);
    skippedPushes = Math.max(0, next - number - 1);
    await sleep(next * everyMs - passed, undefined, { signal }).catch(() => undefined);
  }
  await sampling;
  const after = await server.metrics();
  const wrong = [...after].filter(([name]) => name.startsWith("towline_wrong_skips_total"));
  if (wrong.some(([, value]) => value > 0)) findings.push("a skip was wrong: the audit found something to do");
  return {
    samples,
    pushes,
    skippedPushes,
    reconciliations: growthOf(before, after, loops),
    skipped: growthOf(before, after, leftOutLoops),
    findings: [...findings, ...findGrowth(samples)],
  };
}

/** Long enough for a busy machine. */
const firstWithinMs = 1_800_000;

function findGrowth(samples: readonly Sample[]): string[] {
  return (Object.keys(measures) as Measure[]).flatMap((measure) => {
    const values = samples.map((sample) => sample[measure]);
    const { title, unit, bound } = measures[measure];
    return grows(values, bound) ? [`${title}: ${riseOf(values).toFixed(1)} ${unit} more over the second half`] : [];
  });
}

/** Reports the maximum since the previous sample for values that fluctuate. */
async function takeSample(server: Towline, forMs: number) {
  const sampled = startSampling(server.pid, 1_000);
  await sleep(forMs);
  const { serverBytes, withChildrenBytes } = sampled();
  const metrics = await server.metrics();
  return {
    serverMegabytes: serverBytes / megabyte,
    allMegabytes: withChildrenBytes / megabyte,
    heapMegabytes: (metrics.get("nodejs_heap_size_used_bytes") ?? 0) / megabyte,
    descriptors: readdirSync(`/proc/${server.pid}/fd`).length,
  };
}

export function describeSeconds(pushes: SoakReport["pushes"]): string {
  const half = pushes.map(({ seconds }) => seconds);
  const [first, second] = [half.slice(0, half.length >> 1), half.slice(half.length >> 1)];
  const words = (values: readonly number[]) =>
    `${median(values).toFixed(1)} s at the median, ${(quantile(values, 1) ?? NaN).toFixed(1)} s at most`;
  return `first half ${words(first)}; second half ${words(second)}`;
}
