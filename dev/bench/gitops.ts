/**
 * How long users wait at the command line, and what the same deployments cost: Towline and the peer, one after the
 * other.
 */
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { now } from "./clock.ts";
import { type Cluster, isReady, type Seen } from "./cluster.ts";
import { type Measurement, median, megabytes, milliseconds, type Report, spread } from "./measurement.ts";
import { pushRelease, specOf } from "./project.ts";
import type { Repository, Stage } from "./stage.ts";
import { leftOutLoops } from "./towline.ts";
import { cpuSeconds, startSampling } from "./usage.ts";

const run = promisify(execFile);
const commands = ["reconcile", "diff", "deploy", "validate"] as const;

/** One of the two servers, as far as this measurement uses it. */
interface Server {
  readonly pid: number;
  /** Number of reconciliations that it has finished so far. */
  loops(): Promise<number>;
  stop(): Promise<void>;
}

interface Side {
  readonly name: string;
  readonly namespace: string;
  start(stage: Stage, namespace: string, concurrency: number): Promise<Server>;
}

interface Idle {
  readonly deployments: number;
  readonly loops: number;
  readonly cpuMs: number;
  readonly serverBytes: number;
  readonly withChildrenBytes: number;
  readonly requests: number;
}

interface Figures {
  /** Command → milliseconds from call to exit, for each run. */
  readonly commands: ReadonlyMap<string, readonly number[]>;
  readonly commitMs: readonly number[];
  readonly idle: readonly Idle[];
}

const sides: readonly Side[] = [
  {
    name: "towline",
    namespace: "bench-gitops",
    async start(stage, namespace, concurrency) {
      const server = await stage.startTowline({ name: namespace, namespace, concurrency });
      const loops = async () => {
        const metrics = await server.metrics();
        return (metrics.get("towline_reconcile_duration_seconds_count") ?? 0) + (metrics.get(leftOutLoops) ?? 0);
      };
      return { pid: server.pid, loops, stop: () => server.stop() };
    },
  },
  {
    name: "kluctl controller run",
    namespace: "bench-gitops-peer",
    async start(stage, namespace, concurrency) {
      const peer = await stage.startPeer({ name: namespace, namespace, concurrency });
      return { pid: peer.pid, loops: async () => (await peer.loops()).length, stop: () => peer.stop() };
    },
  },
];

export const gitops: Measurement = {
  name: "gitops",
  title: "`kluctl gitops` commands, and deployments with nothing to do",
  async run(stage) {
    const times = stage.quick ? 3 : 5;
    const sizes = stage.quick ? quickSizes : wholeSizes;
    const baseline = await requestRate(stage.cluster, stage.quick ? 5_000 : 10_000);
    const figures: Figures[] = [];
    for (const side of sides) figures.push(await measure(stage, side, times, sizes, baseline));
    return toReport(figures, times, sizes);
  },
};

/** Number of deployments and their interval; the machine must be able to reconcile all of them within one interval. */
interface Size {
  readonly deployments: number;
  readonly intervalS: number;
}

const wholeSizes: readonly Size[] = [
  { deployments: 1, intervalS: 5 },
  { deployments: 20, intervalS: 30 },
  { deployments: 100, intervalS: 60 },
];
const quickSizes: readonly Size[] = [
  { deployments: 1, intervalS: 5 },
  { deployments: 10, intervalS: 20 },
];
/**
 * Least duration of the idle measurement; in one interval each deployment is reconciled once if the server keeps up.
 */
const leastIdleMs = 30_000;

async function measure(
  stage: Stage,
  side: Side,
  times: number,
  sizes: readonly Size[],
  baseline: number,
): Promise<Figures> {
  const timed = await onServer(stage, side, "1h", 1, async ({ seen, repository, namespace }) => {
    const ran = new Map<string, readonly number[]>();
    for (const command of commands) ran.set(command, await timeCommand(stage, namespace, command, times));
    return { commands: ran, commitMs: await timeCommits(stage, { seen, repository, namespace }, times) };
  });
  const idle: Idle[] = [];
  for (const { deployments, intervalS } of sizes) {
    const namespace = `${side.namespace}-${deployments}`;
    stage.say(`  ${side.name}: ${deployments} deployments with nothing to do`);
    const forMs = Math.max(intervalS * 1_000, leastIdleMs);
    const measured = ({ server }: Running) => measureIdle(stage.cluster, server, deployments, forMs, baseline);
    idle.push(await onServer(stage, { ...side, namespace }, `${intervalS}s`, deployments, measured));
  }
  return { ...timed, idle };
}

interface Running {
  readonly server: Server;
  readonly seen: Seen;
  readonly repository: Repository;
  readonly namespace: string;
}

/** Calls `use` once all deployments are ready at the first commit. */
async function onServer<T>(
  stage: Stage,
  { namespace, start }: Side,
  interval: string,
  count: number,
  use: (running: Running) => Promise<T>,
): Promise<T> {
  const repository = await stage.countedRepository(namespace);
  await stage.cluster.createNamespace(namespace);
  const seen = await stage.cluster.watch("KluctlDeployment", namespace);
  const server = await start(stage, namespace, 2);
  try {
    const names = Array.from({ length: count }, (_, index) => nameOf(index));
    for (const name of names) {
      const spec = { ...specOf({ url: repository.url, namespace, name, interval }), validate: true };
      await stage.cluster.createDeployment(namespace, name, spec);
    }
    const areReady = (all: Parameters<Parameters<Seen["until"]>[1]>[0]) =>
      names.every((name) => isReady(all.get(name), repository.first));
    await seen.until("the first deploys", areReady, 120_000 + count * 6_000);
    return await use({ server, seen, repository, namespace });
  } finally {
    await seen.stop();
    await server.stop();
  }
}

function nameOf(index: number): string {
  return `d${String(index).padStart(3, "0")}`;
}

async function timeCommand(
  { kluctl, cluster, stateDir }: Stage,
  namespace: string,
  command: string,
  times: number,
): Promise<readonly number[]> {
  const home = join(stateDir, "gitops-home");
  await mkdir(home, { recursive: true });
  const args = ["gitops", command, "--no-update-check", "--no-color", "--namespace", namespace, "--name", nameOf(0)];
  const env = { PATH: process.env["PATH"], HOME: home, TMPDIR: home, KUBECONFIG: cluster.kubeconfig };
  const took: number[] = [];
  for (let time = 0; time < times; time++) {
    const from = now();
    await run(kluctl, args, { env, cwd: home, timeout: 60_000 });
    took.push(now() - from);
  }
  return took;
}

/** Pushes a commit and requests a reconciliation; measures from the annotation to `Ready` at that commit. */
async function timeCommits(
  { cluster }: Stage,
  { seen, repository, namespace }: Omit<Running, "server">,
  times: number,
): Promise<readonly number[]> {
  const path = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments/${nameOf(0)}`;
  const took: number[] = [];
  for (let time = 1; time <= times; time++) {
    const { commit } = await pushRelease(repository.copy, String(time));
    const value = JSON.stringify({ requestValue: String(now()) });
    const body = { metadata: { annotations: { "kluctl.io/request-reconcile": value } } };
    const from = now();
    await cluster.client.request({ method: "PATCH", path, body });
    took.push((await seen.until("the commit", (all) => isReady(all.get(nameOf(0)), commit))) - from);
  }
  return took;
}

async function measureIdle(
  cluster: Cluster,
  server: Server,
  deployments: number,
  forMs: number,
  baseline: number,
): Promise<Idle> {
  await delay(6_000); // work left over from the first deploys
  const sampled = startSampling(server.pid, 1_000);
  const [loops, cpu, requests, from] = [await server.loops(), cpuSeconds(server.pid), await requestsOf(cluster), now()];
  await delay(forMs);
  const done = (await server.loops()) - loops;
  const asked = (await requestsOf(cluster)) - requests - (baseline * (now() - from)) / 1_000;
  const { serverBytes, withChildrenBytes } = sampled();
  const each = Math.max(done, 1);
  return {
    deployments,
    loops: done,
    cpuMs: ((cpuSeconds(server.pid) - cpu) * 1_000) / each,
    serverBytes,
    withChildrenBytes,
    requests: asked / each,
  };
}

/** The control plane's own requests per second. */
async function requestRate(cluster: Cluster, forMs: number): Promise<number> {
  const [before, from] = [await requestsOf(cluster), now()];
  await delay(forMs);
  return ((await requestsOf(cluster)) - before) / ((now() - from) / 1_000);
}

/** All requests that the API server has answered, by its own counter, except for watches, which stay open. */
async function requestsOf({ client }: Cluster): Promise<number> {
  const answer = await client.stream({ path: "/metrics", signal: AbortSignal.timeout(30_000) });
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += chunk as string;
  const counts = [...text.matchAll(/^apiserver_request_total\{([^}]*)\} (\S+)$/gm)];
  return counts
    .filter(([, labels = ""]) => !labels.includes('verb="WATCH"'))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

/** The figures of the two servers, in the order of `sides`. */
type Pair = readonly [ours: Figures, theirs: Figures];

function toReport(figures: readonly Figures[], times: number, sizes: readonly Size[]): Report {
  const [ours, theirs] = figures;
  if (ours === undefined || theirs === undefined) throw new Error("One of the two servers was not measured.");
  const pair: Pair = [ours, theirs];
  const spreads = (of: (one: Figures) => readonly number[]) => pair.flatMap((one) => spread(of(one)).slice(0, 2));
  const names = sides.map(({ name }) => name);
  const waits = [
    ...commands.map((command) => ({
      what: `kluctl gitops ${command}`,
      of: (one: Figures) => one.commands.get(command) ?? [],
      goal: 1,
      why: "both servers answer before the client polls for the first time, after a second; the difference comes from the client.",
    })),
    {
      what: "annotation → Ready at the new commit",
      of: ({ commitMs }: Figures) => commitMs,
      goal: 0.5,
      why: "kluctl runs to compare, to deploy, and to validate if the objects do not show that they are ready, and each run reads the project and the cluster from scratch; kluctl's controller renders once, in its own process.",
    },
  ];
  const ratioOf = (of: (one: Figures) => number) => of(ours) / of(theirs);
  const waited = waits.map(({ what, of, goal, why }) => ({
    ...{ what, goal, why },
    ratio: ratioOf((one) => median(of(one))),
  }));
  const costs = sizes.flatMap(({ deployments }, i) =>
    costRows.map(({ what, of, show }) => {
      const values = pair.map((one) => of(one.idle[i] as Idle));
      const ratio = (values[0] ?? NaN) / (values[1] ?? NaN);
      return { what: `${what}, ${countOf(deployments)}`, cells: values.map(show), ratio };
    }),
  );
  const intervals = sizes.map(({ deployments, intervalS }) => `${deployments} with \`interval: ${intervalS}s\``);
  return {
    how:
      `Each command is run ${times} times on one deployment of three objects, and timed until it ends. Then ${times} commits are timed from the annotation ` +
      "that requests a reconciliation until Ready. `kluctl gitops` polls for the result once a second, so that about 1.1 s is the minimum. " +
      `Then the servers have deployments with nothing to do: ${intervals.join(", ")}, each measured for one interval but at least ${leastIdleMs / 1_000} s. These are validated, two at a time; Towline skips a reconciliation if nothing can have changed. ` +
      "CPU is the CPU time of the server and everything it started, including what it uses while idle, divided by the number of reconciliations. Requests are counted by the API server, without those that the control plane itself makes.",
    tables: [
      {
        head: ["", ...names.flatMap((name) => [`${name}: median`, "p90"]), "ratio of the medians"],
        rows: waits.map(({ what, of }, i) => [what, ...spreads(of), (waited[i]?.ratio ?? NaN).toFixed(2)]),
      },
      {
        head: ["nothing to do", ...names, "ratio"],
        rows: costs.map(({ what, cells, ratio }) => [what, ...cells, ratio.toFixed(2)]),
      },
    ],
    notes: explain(
      waited.map(({ ratio }) => ratio),
      costs,
    ),
    goals: waited.map(({ what, ratio, goal, why }) => ({
      what: `${what}: median, Towline / kluctl's controller`,
      wanted: `≤ ${goal.toFixed(2)}`,
      measured: ratio.toFixed(2),
      met: Number(ratio.toFixed(2)) <= goal, // compared as displayed: a difference of a thousandth does not count
      why,
    })),
    memory: [],
  };
}

const costRows: readonly {
  readonly what: string;
  readonly of: (idle: Idle) => number;
  readonly show: (value: number) => string;
}[] = [
  { what: "reconciliations", of: ({ loops }) => loops, show: String },
  { what: "CPU per reconciliation", of: ({ cpuMs }) => cpuMs, show: milliseconds },
  { what: "requests per reconciliation", of: ({ requests }) => requests, show: (value) => value.toFixed(1) },
  { what: "memory of the server", of: ({ serverBytes }) => serverBytes, show: megabytes },
  { what: "memory with child processes", of: ({ withChildrenBytes }) => withChildrenBytes, show: megabytes },
];

/** A number of deployments in words. */
function countOf(deployments: number): string {
  return `${deployments} ${deployments === 1 ? "deployment" : "deployments"}`;
}

/** Explains why Towline is slower or larger, wherever the difference exceeds the variation between runs. */
function explain(waits: readonly number[], costs: readonly { what: string; ratio: number }[]): string[] {
  const slower = (ratio: number) => ratio > 1.05;
  const largest = (word: string) =>
    Math.max(...costs.filter(({ what }) => what.startsWith(word)).map(({ ratio }) => ratio));
  const notes: string[] = [];
  if (waits.some(slower)) {
    notes.push(
      "Where Towline takes longer: kluctl's controller renders once for everything that it does. In Towline, comparing, deploying and, unless its result follows from these, " +
        "validating are separate runs of kluctl, and each of them renders; a commit also needs a Lease, a clone and the start of a process. " +
        "Because `kluctl gitops` polls only once a second, a small delay may cost a whole second, and a small lead may save one.",
    );
  }
  if (slower(largest("CPU"))) {
    notes.push(
      "CPU: with validation, a reconciliation is a second run of kluctl if the objects that it compared do not show that they are ready. " +
        "If there are few reconciliations, the figure for each includes a larger part of what the server uses for watches, sweeps and its own ports.",
    );
  }
  if (slower(largest("requests"))) {
    notes.push(
      "Requests: both runs of kluctl read the API resources and the objects from scratch. The server adds requests to acquire and release the deployment's Lease, " +
        "to read the deployment before and after acquiring it, and to write the progress.",
    );
  }
  if (slower(largest("memory of the server"))) {
    notes.push(
      "Memory of the server: most of it is used by Node.js and the libraries, even without any deployment (about 40 MB by Node.js itself and about 80 MB by the Kubernetes client), " +
        "and the heap may grow while there is free memory.",
    );
  }
  if (slower(largest("memory with"))) {
    notes.push(
      "Memory with child processes: each of the two parallel reconciliations runs its own kluctl, in addition to the server and the process from which the renderers are forked.",
    );
  }
  return notes;
}
