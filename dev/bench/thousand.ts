/** A thousand real deployments: all deployed, then idle, pushed to, restarted, and with a Redis that forgets everything. */
import { setTimeout as delay } from "node:timers/promises";
import { now } from "./clock.ts";
import { compileServer } from "./compiled.ts";
import { type Measurement, megabytes, median, milliseconds, type Report, seconds } from "./measurement.ts";
import { type Population, populate, settled } from "./population.ts";
import { openRedisCounter } from "./redis-count.ts";
import type { Stage } from "./stage.ts";
import { growth, type Towline } from "./towline.ts";
import { cpuSeconds, startSampling } from "./usage.ts";

const repositories = 20;
const concurrency = 2;
const intervalSeconds = 300;
const most = { bytes: 250 * 1024 * 1024, cores: 0.05 };
const loops = "towline_reconcile_duration_seconds_count";

/** How far the first deploy of all was, and what it had taken until then. */
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
    const program = await compileServer(stage.stateDir);
    const start = () =>
      stage.startTowline({ name: namespace, namespace, concurrency, program, sweep: stage.quick ? "10s" : "60s" });
    const redis = await openRedisCounter(await stage.redisUrl());
    stage.defer(() => redis.close());

    const interval = `${intervalSeconds}s`;
    const all = await populate(stage, { namespace, deployments: count, repositories, interval, upToDate: false });
    const server = await start();
    const asked = await redis.count();
    const points = await deployAll(stage, all, server);
    await settled(server);
    const jobs = (await server.metrics()).get(loops) ?? 0;
    const kept = await redis.count();
    const perJob = (kept.commands - asked.commands) / jobs;

    const idle = await watchIdle(stage, server);
    const scrapes = [];
    for (let i = 0; i < 10; i++) scrapes.push(await server.scrape());
    const pushed = await all.push(0, server);
    stage.say(`  a push for ${pushed.deployments}: ${seconds(pushed.ms)}`);
    await settled(server);
    await server.stop();

    const startedAt = now();
    const again = await start();
    const readyMs = now() - startedAt;
    const afterRestart = await watchIdle(stage, again);
    stage.say(`  after a restart: ${afterRestart.loops} loops in ${afterRestart.seconds} s`);
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
        `${count} deployments of one object each, ${count / repositories} of each of ${repositories} repositories, with \`interval: 5m\`; ${concurrency} at a time; the server is compiled as in the image. ` +
        "All are there when the server starts and are deployed for the first time. Then it is idle but for what the interval asks for. " +
        "Then a push concerns all deployments of one repository; the server is restarted; and two seconds after one more push its Redis forgets everything.",
      tables: [
        {
          head: ["", ""],
          rows: [
            ["first deploy of all", seconds(whole.ms)],
            ["deployments", `${((whole.done * 1_000) / whole.ms).toFixed(2)}/s`],
            ["CPU of each, with all that the server ran", milliseconds((whole.cpuSeconds * 1_000) / whole.done)],
            [`a push for ${pushed.deployments} deployments, until all are Ready`, seconds(pushed.ms)],
            ["idle: of a core, with all that the server ran", percent(idle.cores)],
            [`idle: loops in ${idle.seconds} s (the interval asks for ${Math.round(byInterval)})`, String(idle.loops)],
            ["idle: memory of the server", megabytes(idle.serverBytes)],
            ["idle: memory with the fork server and all other children", megabytes(idle.withChildrenBytes)],
            ["`/metrics`, median of 10", milliseconds(median(scrapes.map(({ ms }) => ms)))],
            ["`/metrics`, size", `${Math.round((scrapes[0]?.bytes ?? 0) / 1024)} kB`],
            ["a restart, until it is ready", milliseconds(readyMs)],
            [`after it: loops in ${afterRestart.seconds} s`, String(afterRestart.loops)],
            [`Redis lost during a push for ${lost.deployments}, until all are Ready`, seconds(lost.ms)],
            ["Redis: keys when nothing is to be done", String(kept.keys)],
            ["Redis: memory", megabytes(kept.bytes)],
            ["Redis: commands for each job, the server's idling and scripts' own included", perJob.toFixed(0)],
          ],
        },
        {
          head: ["deployed", "after", "memory of the server", "CPU so far"],
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
          title: "Deployed for the first time, by time",
          x: "deployments",
          y: "s",
          points: points.map(({ done, ms }) => [done, Math.round(ms / 100) / 10] as const),
        },
        {
          name: "growth-memory",
          title: "Memory of the server, by deployments deployed",
          x: "deployments",
          y: "MB",
          points: points.map(({ done, bytes }) => [done, Math.round(bytes / 1024 / 1024)] as const),
        },
      ],
      goals: [
        {
          what: `${count} deployments, interval 5m, idle: of a core`,
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

/** Waits until all are deployed; takes down at each twentieth what it has cost so far. */
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
  stage.say(`  first deploy of ${names.length}: ${seconds(points.at(-1)!.ms)}`);
  return points;
}

async function watchIdle(stage: Stage, server: Towline) {
  await delay(stage.quick ? 1_000 : 5_000);
  const forSeconds = stage.quick ? 10 : 45;
  const before = await server.metrics();
  const sampled = startSampling(server.pid, 1_000);
  await delay(forSeconds * 1_000);
  return { ...sampled(), seconds: forSeconds, loops: growth(before, await server.metrics(), loops) };
}

function percent(cores: number): string {
  return `${(cores * 100).toFixed(1)} %`;
}
