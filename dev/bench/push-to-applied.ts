/** From a push to the changed object in the cluster, with the webhook of a real git host and with polling. */
import { setTimeout as delay } from "node:timers/promises";
import { isReady } from "./cluster.ts";
import { type Goal, median, type Measurement, milliseconds, type Report, spread, type Table } from "./measurement.ts";
import { type Push, pushRelease, specOf } from "./project.ts";
import type { Repository, Stage } from "./stage.ts";
import { type Moments, receivedAt, type Step, stepTable, takeApart, timeIn } from "./timeline.ts";
import { coldDiffMs } from "./spawn.ts";
import { growth, type Ran, type Towline } from "./towline.ts";

const name = "small";
const goalMs = 100;
const goalRatio = 1.1;
const whyMissed =
  "the clock starts at the end of `git push`. Gitea takes 0.2 s to send its webhook, and then kluctl runs with warm renderers.";

interface Sample extends Moments {
  readonly push: Push;
  readonly ran: readonly Ran[];
  readonly intakeMs: number;
  readonly queueMs: number;
}

export const pushToApplied: Measurement = {
  name: "push",
  title: "From push to applied",
  async run(stage) {
    const { samples, coldMs } = await measureOurs(stage, stage.quick ? 5 : 30);
    const peer = await measurePeer(stage, stage.quick ? 2 : 6);
    const totals = samples.map(({ push, seenAt }) => seenAt - push.doneAt);
    const ours = samples.map(oursOf);
    return {
      how:
        `${samples.length} pushes to Gitea, which sends its webhook. Each push changes one value in a project of three objects. ` +
        "The clock starts when `git push` has ended and stops when a watch of the API server shows the changed object. " +
        "Everything except kluctl and the git commands that contact the remote counts as Towline's time: the delivery, the queue, the Lease, the clone, " +
        `the status. kluctl's controller polls every 10 s and gets ${peer.length} pushes at random moments. One cold \`kluctl diff\` of the same project took ${milliseconds(coldMs)} in the same run (median).`,
      tables: [
        splits(samples),
        comparison(totals, peer),
        stepTable("steps from the delivery to Ready", samples.map(stepsOf)),
      ],
      goals: [goal(ours), goalAgainstCold(totals, coldMs)],
      memory: [],
    } satisfies Report;
  },
};

async function measureOurs(stage: Stage, pushes: number) {
  const namespace = "bench-push";
  const repository = await stage.giteaRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2 });
  await repository.client.registerWebhook(repository.remote, { ...server.webhook, events: ["push"] });
  const watches = await watch(stage, namespace);
  await deployFirst(stage, watches, repository, namespace, "1h");

  const one = async (value: string): Promise<Sample> => {
    const [before, known] = [await server.metrics(), (await server.processes()).length];
    const push = await pushRelease(repository.copy, value);
    const [seenAt, recordedAt] = await Promise.all([
      watches.objects.until(`release ${value}`, (all) => all.get(name)?.data?.["release"] === value),
      watches.deployments.until(`ready at ${push.commit}`, (all) => isReady(all.get(name), push.commit)),
    ]);
    await delay(100); // for what is observed after the status is written
    const after = await server.metrics();
    const ran = (await server.processes()).slice(known);
    const sum = (metric: string) => growth(before, after, `${metric}_sum`) * 1_000;
    return {
      push,
      seenAt,
      recordedAt,
      receivedAt: await lastDelivery(server),
      ran,
      intakeMs: sum("towline_webhook_duration_seconds"),
      queueMs: sum("towline_queue_wait_seconds"),
    };
  };
  await one("warm-1");
  await one("warm-2");
  const samples: Sample[] = [];
  for (let i = 1; i <= pushes; i++) {
    samples.push(await one(`r${i}`));
    if (i % 5 === 0) stage.say(`  ${i} of ${pushes} pushes`);
  }
  await server.stop();
  return { samples, coldMs: await coldDiffMs(stage, repository, namespace) };
}

async function measurePeer(stage: Stage, pushes: number): Promise<number[]> {
  const namespace = "bench-push-peer";
  const repository = await stage.giteaRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const peer = await stage.startPeer({ name: namespace, namespace, concurrency: 2 });
  const watches = await watch(stage, namespace);
  await deployFirst(stage, watches, repository, namespace, "10s");
  const totals: number[] = [];
  for (let i = 1; i <= pushes; i++) {
    await delay(Math.random() * 10_000);
    const value = `r${i}`;
    const { doneAt } = await pushRelease(repository.copy, value);
    const seenAt = await watches.objects.until(value, (all) => all.get(name)?.data?.["release"] === value);
    totals.push(seenAt - doneAt);
    stage.say(`  peer: push ${i} of ${pushes} after ${milliseconds(seenAt - doneAt)}`);
  }
  await peer.stop();
  return totals;
}

async function watch({ cluster, defer }: Stage, namespace: string) {
  const objects = await cluster.watch("ConfigMap", namespace);
  defer(() => objects.stop());
  const deployments = await cluster.watch("KluctlDeployment", namespace);
  defer(() => deployments.stop());
  return { objects, deployments };
}

async function deployFirst(
  { cluster }: Stage,
  { deployments }: Awaited<ReturnType<typeof watch>>,
  { url, first }: Repository,
  namespace: string,
  interval: string,
): Promise<void> {
  await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval }));
  await deployments.until("the first deploy", (all) => isReady(all.get(name), first), 120_000);
}

async function lastDelivery(server: Towline): Promise<number> {
  const line = (await server.lines()).findLast(({ msg }) => msg === "push accepted");
  if (line === undefined) throw new Error("The server has logged no delivery.");
  return receivedAt(line);
}

const asking = ["git ls-remote", "git fetch"];

function oursOf(sample: Sample): number {
  const { receivedAt: from, seenAt, ran } = sample;
  return seenAt - from - timeIn(sample, ran, [...asking, "kluctl diff", "kluctl deploy"]);
}

function splits(samples: readonly Sample[]): Table {
  const row = (what: string, of: (sample: Sample) => number) => [what, ...spread(samples.map(of))];
  const process = (what: string, ...names: string[]) => row(what, (sample) => timeIn(sample, sample.ran, names));
  return {
    head: ["", "median", "p90", "max"],
    rows: [
      row("git push", ({ push }) => push.doneAt - push.startedAt),
      row("push done → delivery received", ({ push, receivedAt: at }) => at - push.doneAt),
      row("intake: received → answered", ({ intakeMs }) => intakeMs),
      row("queue: queued → work started", ({ queueMs }) => queueMs),
      process("git ls-remote", "git ls-remote"),
      process("git fetch", "git fetch"),
      process("clone of the mirror", "git cat-file", "git clone", "git checkout"),
      process("kluctl diff", "kluctl diff"),
      process("kluctl deploy, until the object changed", "kluctl deploy"),
      row("Towline: everything except ls-remote, fetch and kluctl", oursOf),
      row("total: push done → object changed", ({ push, seenAt }) => seenAt - push.doneAt),
      row("push done → Ready recorded", ({ push, recordedAt }) => recordedAt - push.doneAt),
    ],
  };
}

function comparison(ours: readonly number[], peer: readonly number[]): Table {
  return {
    head: ["push done → object changed", "median", "p90", "max"],
    rows: [
      ["towline", ...spread(ours)],
      ["kluctl controller run, interval 10s", ...spread(peer)],
      ["ratio of the medians", `${(median(peer) / median(ours)).toFixed(1)}`, "", ""],
    ],
  };
}

function stepsOf(sample: Sample): Step[] {
  return takeApart(sample, sample.ran, { last: "Ready" });
}

function goalAgainstCold(totals: readonly number[], coldMs: number): Goal {
  const ratio = median(totals) / coldMs;
  return {
    what: `push to applied, p50 of ${totals.length} pushes / one cold kluctl diff`,
    wanted: `≤ ${goalRatio}`,
    measured: ratio.toFixed(2),
    met: ratio <= goalRatio,
    why: whyMissed,
  };
}

function goal(ours: readonly number[]): Goal {
  return {
    what: "push to applied: Towline's own time, median",
    wanted: `< ${goalMs} ms`,
    measured: milliseconds(median(ours)),
    met: median(ours) < goalMs,
  };
}
