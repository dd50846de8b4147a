/** Many deployments of one repository and one push: the requests to the git host, and the time they take. */
import { setTimeout as delay } from "node:timers/promises";
import { eventLoopLookMs } from "../../src/metrics.ts";
import { now } from "./clock.ts";
import type { KubernetesObject, Seen } from "./cluster.ts";
import { type MemoryRow, type Measurement, milliseconds, type Report, seconds } from "./measurement.ts";
import { deliver, settled } from "./population.ts";
import { pushRelease, specOf } from "./project.ts";
import type { Repository, Stage } from "./stage.ts";
import { growth, type Metrics, type Towline } from "./towline.ts";
import { startSampling } from "./usage.ts";

const concurrency = 2;
const goalRatio = 0.35;
const whyMissed =
  "both use the whole machine and share it with the API server, which gets nearly the same requests from both. Most of Towline's time is the run of kluctl.";
/** Limit for the first and the second round; what is done by then is reported. */
const patienceMs = 200_000;

interface Round {
  readonly done: number;
  readonly ms: number;
}

export const manyDeployments: Measurement = {
  name: "many",
  title: "One push for many deployments of one repository",
  async run(stage) {
    const count = stage.quick ? 20 : 200;
    const ours = await measureOurs(stage, count);
    const peer = await measurePeer(stage, count);
    const { lsRemotes, fetches, requests, lag } = ours;
    const rate = ({ done, ms }: Round) => `${((done * 1_000) / ms).toFixed(2)}/s`;
    const row = (who: string, round: Round) => [who, `${round.done} of ${count}`, seconds(round.ms), rate(round)];
    const ratio = ours.pushed.ms / peer.pushed.ms;
    const onceAtMost = (what: string, measured: number) => ({
      what: `${count} deployments, one push: ${what}`,
      wanted: "≤ 1",
      measured: String(measured),
      met: measured <= 1,
    });
    return {
      how:
        `${count} deployments of three objects each, all from one repository; both servers reconcile ${concurrency} at a time. ` +
        `kluctl's controller has \`interval: 10s\`, so that it is never idle. A round ends when the last changed object is seen, or after ${seconds(patienceMs)}.`,
      tables: [
        {
          head: ["until all are deployed", "deployed", "time", "rate"],
          rows: [
            row("towline, first deploy", ours.first),
            row("towline, after the push", ours.pushed),
            row("kluctl controller run, first deploy", peer.first),
            row("kluctl controller run, after the push", peer.pushed),
          ],
        },
        {
          head: ["requests to the git host for this push", "count"],
          rows: [
            ["ls-remote", String(lsRemotes)],
            ["fetch", String(fetches)],
            ["total, as counted by the git host", String(requests)],
          ],
        },
      ],
      notes: [
        `During the push, the event-loop delay of the server was ${milliseconds(lag.p50)} at the median, ${milliseconds(lag.p99)} at the 99th percentile and ${milliseconds(lag.max)} at most.`,
      ],
      goals: [
        {
          what: `${count} deployments, one push, until all are deployed: Towline / kluctl's controller`,
          wanted: `≤ ${goalRatio}`,
          measured: ratio.toFixed(2),
          met: ratio <= goalRatio,
          why: whyMissed,
        },
        onceAtMost("ls-remotes", lsRemotes),
        onceAtMost("fetches", fetches),
      ],
      memory: ours.memory,
    } satisfies Report;
  },
};

async function measureOurs(stage: Stage, count: number) {
  const namespace = "bench-many";
  const { repository, objects } = await prepare(stage, namespace);
  const server = await stage.startTowline({ name: namespace, namespace, concurrency });
  const memory: MemoryRow[] = [];
  memory.push({ when: "no deployments, idle", ...(await sampleIdle(stage, server)) });

  const createdAt = now();
  await createDeployments(stage, repository, namespace, count, "1h");
  const first = await finishRound(stage, objects, count, "0", createdAt);

  await settled(server);
  memory.push({ when: `${count} deployments, idle`, ...(await sampleIdle(stage, server)) });
  const { host } = repository;
  const sampled = startSampling(server.pid);
  const [before, asked] = [await server.metrics(), host.requests.infoRefs];
  const { commit, doneAt } = await pushRelease(repository.copy, "1");
  await deliver(server, repository.url, commit);
  const pushed = await finishRound(stage, objects, count, "1", doneAt);
  const lag = lagOf(await server.metrics());
  await settled(server);
  memory.push({ when: `${count} deployments, during the push`, ...sampled() });
  const after = await server.metrics();
  const ran = (operation: string) =>
    growth(before, after, `towline_git_seconds_count{operation="${operation}",result="ok"}`);
  await server.stop();
  return {
    first,
    pushed,
    lsRemotes: ran("ls-remote"),
    fetches: ran("fetch"),
    requests: host.requests.infoRefs - asked,
    lag,
    memory,
  };
}

/**
 * Event loop lag since the previous scrape. Node reports the time between two samples, so the sampling interval is
 * subtracted.
 */
export function lagOf(metrics: Metrics) {
  const of = (what: string) =>
    Math.max(0, (metrics.get(`nodejs_eventloop_lag_${what}_seconds`) ?? NaN) * 1_000 - eventLoopLookMs);
  return { p50: of("p50"), p99: of("p99"), max: of("max") };
}

async function measurePeer(stage: Stage, count: number): Promise<{ first: Round; pushed: Round }> {
  const namespace = "bench-many-peer";
  const { repository, objects } = await prepare(stage, namespace);
  const peer = await stage.startPeer({ name: namespace, namespace, concurrency });
  const createdAt = now();
  await createDeployments(stage, repository, namespace, count, "10s");
  const first = await finishRound(stage, objects, count, "0", createdAt);
  const { doneAt } = await pushRelease(repository.copy, "1");
  const pushed = await finishRound(stage, objects, count, "1", doneAt);
  await peer.stop();
  return { first, pushed };
}

async function prepare(stage: Stage, namespace: string) {
  const repository = await stage.countedRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const objects = await stage.cluster.watch("ConfigMap", namespace);
  stage.defer(() => objects.stop());
  return { repository, objects };
}

async function createDeployments(
  { cluster }: Stage,
  { url }: Repository,
  namespace: string,
  count: number,
  interval: string,
): Promise<void> {
  for (let i = 0; i < count; i++) {
    const name = `d${String(i).padStart(3, "0")}`;
    await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval }));
  }
}

/** Waits until all deployments have the release or the time limit is reached. */
async function finishRound(
  { say }: Stage,
  objects: Seen,
  count: number,
  release: string,
  startedAt: number,
): Promise<Round> {
  let done = 0;
  const all = (seen: ReadonlyMap<string, KubernetesObject>) => {
    done = [...seen.values()].filter(({ data }) => data?.["release"] === release).length;
    return done === count;
  };
  const finishedAt = await objects.until(`release ${release}`, all, patienceMs).catch(() => now());
  const ms = finishedAt - startedAt;
  say(`  release ${release}: ${done} of ${count} after ${seconds(ms)}`);
  return { done, ms };
}

async function sampleIdle(stage: Stage, server: Towline): Promise<Omit<MemoryRow, "when">> {
  await delay(3_000);
  const sampled = startSampling(server.pid, 1_000);
  await delay(stage.quick ? 5_000 : 15_000);
  return sampled();
}
