/**
 * A thousand real deployments: all are deployed, idle, pushed to, reconciled after a restart, and after Redis loses all
 * data.
 */
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./clock.ts";
import { type Measurement, megabytes, milliseconds, type Report, seconds } from "./measurement.ts";
import { gather, loops, type Population, settled, watchIdle } from "./population.ts";
import { openRedisCounter } from "./redis-count.ts";
import type { Stage } from "./stage.ts";
import type { Towline } from "./towline.ts";
import { cpuSeconds, startSampling } from "./usage.ts";

const repositories = 20;
const concurrency = 2;
const intervalSeconds = 300;
const most = { bytes: 250 * 1024 * 1024, cores: 0.05 };

/** Progress of the first deploys, and their cost up to that point. */
interface Point {
  readonly done: number;
  readonly ms: number;
  readonly bytes: number;
  readonly cpuSeconds: number;
}

export const thousand: Measurement = {
  name: "thousand",
  title: "A thousand deployments",
  async run(stage) {
    const count = stage.deployments ?? (stage.quick ? 60 : 1_000);
    const namespace = "bench-thousand";
    const redis = await openRedisCounter(await stage.redisUrl());
    stage.defer(() => redis.close());

    const { all, start } = await gather(stage, {
      ...{ namespace, deployments: count, repositories, concurrency, upToDate: false },
      interval: `${intervalSeconds}s`,
      servers: { sweep: stage.quick ? "10s" : "60s" },
    });
    const { server } = await start("1");
    const asked = await redis.count();
    const points = await deployAll(stage, all, server);
    await settled(server);
    const jobs = (await server.metrics()).get(loops) ?? 0;
    const kept = await redis.count();
    const perJob = (kept.commands - asked.commands) / jobs;

    const watched = { settleMs: stage.quick ? 1_000 : 5_000, forMs: stage.quick ? 10_000 : 45_000 };
    // The first check after a deploy is part of it: it confirms that there is nothing to do. A minute after the last
    // one, the server releases the memory they used.
    const lookedAtMs = stage.quick ? 1_000 : (intervalSeconds * 1.1 + 10 + 75) * 1_000;
    const idle = await watchIdle(server, { ...watched, settleMs: lookedAtMs });
    const pushed = await all.push(0, server);
    stage.say(`  a push for ${pushed.deployments} deployments: ${seconds(pushed.ms)}`);
    await settled(server);
    await server.stop();

    const { server: again, readyMs } = await start("1");
    const afterRestart = await watchIdle(again, watched);
    stage.say(`  after a restart: ${afterRestart.loops} reconciliations in ${afterRestart.seconds} s`);
    const lost = await all.push(1, again, async () => {
      await delay(2_000);
      await redis.flush();
    });
    await settled(again);
    await again.stop();

    const whole = points.at(-1)!;
    const byInterval = (count * idle.seconds) / intervalSeconds;
    return {
      how:
        `${count} deployments of one object each, ${count / repositories} from each of ${repositories} repositories, with \`interval: 5m\`; ${concurrency} are reconciled at a time; the server is compiled as in the image. ` +
        "All of them exist when the server starts, and are deployed for the first time. A minute after each has been checked once more, the server is idle except for the checks by interval. " +
        "Then a push affects all deployments of one repository; the server is restarted; and two seconds after another push, Redis is flushed.",
      tables: [
        {
          head: ["", ""],
          rows: [
            ["first deploy of all deployments", seconds(whole.ms)],
            ["rate", `${((whole.done * 1_000) / whole.ms).toFixed(2)}/s`],
            ["CPU per deployment, including child processes", milliseconds((whole.cpuSeconds * 1_000) / whole.done)],
            [`a push for ${pushed.deployments} deployments, until all are Ready`, seconds(pushed.ms)],
            ["idle: CPU, of one core, including child processes", percent(idle.cores)],
            [
              `idle: reconciliations in ${idle.seconds} s, not counting skipped ones (${Math.round(byInterval)} are due)`,
              String(idle.loops),
            ],
            ["idle: memory of the server", megabytes(idle.serverBytes)],
            ["idle: memory with the fork server and all other child processes", megabytes(idle.withChildrenBytes)],
            ...idle.scrapeRows,
            ["restart, until the server is ready", milliseconds(readyMs)],
            [`after the restart: reconciliations in ${afterRestart.seconds} s`, String(afterRestart.loops)],
            [`Redis flushed during a push for ${lost.deployments} deployments, until all are Ready`, seconds(lost.ms)],
            ["Redis: keys while idle", String(kept.keys)],
            ["Redis: memory", megabytes(kept.bytes)],
            ["Redis: commands per job, including those of the idle server and those inside scripts", perJob.toFixed(0)],
          ],
        },
        {
          head: ["deployed", "time", "memory of the server", "CPU so far"],
          rows: points.map(({ done, ms, bytes, cpuSeconds: cpu }) => [
            String(done),
            seconds(ms),
            megabytes(bytes),
            `${cpu.toFixed(1)} s`,
          ]),
        },
      ],
      plots: [
        {
          name: "growth-time",
          title: "Time of the first deploy, by number of deployments",
          x: "deployments",
          y: "s",
          points: points.map(({ done, ms }) => [done, Math.round(ms / 100) / 10] as const),
        },
        {
          name: "growth-memory",
          title: "Memory of the server, by number of deployments",
          x: "deployments",
          y: "MB",
          points: points.map(({ done, bytes }) => [done, Math.round(bytes / 1024 / 1024)] as const),
        },
      ],
      notes: [slopeOf(points)],
      goals: [
        {
          what: `${count} deployments, interval 5m, idle: CPU, of one core`,
          wanted: `≤ ${most.cores * 100} %`,
          measured: percent(idle.cores),
          met: idle.cores <= most.cores,
        },
        {
          what: `${count} deployments, idle: memory with the fork server`,
          wanted: `≤ ${megabytes(most.bytes)}`,
          measured: megabytes(idle.withChildrenBytes),
          met: idle.withChildrenBytes <= most.bytes,
        },
      ],
      memory: [],
    } satisfies Report;
  },
};

/** How much more the second half took than the first: the ratio is 1 if the cost is linear in their number. */
function slopeOf(points: readonly Point[]): string {
  const whole = points.at(-1)!;
  const half = points.find(({ done }) => done >= whole.done / 2)!;
  const grew = (of: (point: Point) => number) => ((of(whole) - of(half)) / of(half)).toFixed(2);
  const each = (whole.bytes - half.bytes) / (whole.done - half.done) / 1024;
  return (
    `The deployments from ${half.done} to ${whole.done} took ${grew(({ ms }) => ms)} times as long as those before, and ${grew(({ cpuSeconds: cpu }) => cpu)} times as much CPU; 1 means linear growth. ` +
    `The cost of a deployment is that of kluctl, which does not depend on the other deployments. In the second half, the memory of the server grew by ${each.toFixed(0)} kB per deployment: ` +
    "what it stores about a deployment and the versions of its objects, and memory that the garbage collector has not reclaimed yet."
  );
}

/** Waits until all are deployed, and records the cost so far at every twentieth. */
async function deployAll(stage: Stage, all: Population, server: Towline): Promise<Point[]> {
  const [startedAt, cpuBefore] = [now(), cpuSeconds(server.pid)];
  const { names, first, seen } = all;
  const points: Point[] = [];
  const steps = [1, ...Array.from({ length: 20 }, (_, i) => Math.ceil(((i + 1) * names.length) / 20))];
  const sampled = { bytes: 0 };
  for (const done of new Set(steps)) {
    const sample = startSampling(server.pid, 2_000);
    const at = await seen.until(
      `${done} deployed`,
      (objects) => [...objects.values()].filter(({ status }) => status?.observedCommit === first).length >= done,
      120_000,
    );
    sampled.bytes = Math.max(sampled.bytes, sample().serverBytes);
    points.push({ done, ms: at - startedAt, bytes: sampled.bytes, cpuSeconds: cpuSeconds(server.pid) - cpuBefore });
  }
  stage.say(`  first deploy of ${names.length} deployments: ${seconds(points.at(-1)!.ms)}`);
  return points;
}

function percent(cores: number): string {
  return `${(cores * 100).toFixed(1)} %`;
}
