/** What people wait for at the command line, and what the same deployments cost: ours and the peer's, one after the other. */
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
import { growth } from "./towline.ts";
import { cpuSeconds, startSampling } from "./usage.ts";

const run = promisify(execFile);
const commands = ["reconcile", "diff", "deploy", "validate"] as const;

/** One of the two servers, as far as this looks at it. */
interface Server {
  readonly pid: number;
  /** How many loops it has finished so far. */
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
  /** Command → milliseconds from call to exit, each time. */
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
      const loops = async () => growth(new Map(), await server.metrics(), "towline_reconcile_duration_seconds_count");
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
  title: "At the command line, and in the background",
  async run(stage) {
    const times = stage.quick ? 3 : 10;
    const idleMs = stage.quick ? 25_000 : 60_000;
    const baseline = await requestRate(stage.cluster, stage.quick ? 5_000 : 20_000);
    const figures: Figures[] = [];
    for (const side of sides) figures.push(await measure(stage, side, times, idleMs, baseline));
    return toReport(figures, times, idleMs);
  },
};

async function measure(stage: Stage, side: Side, times: number, idleMs: number, baseline: number): Promise<Figures> {
  const timed = await onServer(stage, side, "1h", 1, async ({ seen, repository, namespace }) => {
    const ran = new Map<string, readonly number[]>();
    for (const command of commands) ran.set(command, await timeCommand(stage, namespace, command, times));
    return { commands: ran, commitMs: await timeCommits(stage, { seen, repository, namespace }, times) };
  });
  const idle: Idle[] = [];
  // Slower ones where there are many: the machine has to be able to do them all.
  for (const [deployments, interval] of [
    [1, "10s"],
    [20, "30s"],
  ] as const) {
    const one = await onServer(
      stage,
      { ...side, namespace: `${side.namespace}-${deployments}` },
      interval,
      deployments,
      ({ server }) => measureIdle(stage.cluster, server, deployments, idleMs, baseline),
    );
    idle.push(one);
  }
  return { ...timed, idle };
}

interface Running {
  readonly server: Server;
  readonly seen: Seen;
  readonly repository: Repository;
  readonly namespace: string;
}

/** The deployments are deployed, and have been looked at once more, when `use` is called. */
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
    await seen.until("the first deploys", areReady, 180_000);
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

/** A commit is pushed, then somebody asks; the clock runs from the annotation to `Ready` at that commit. */
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
  await delay(11_000); // what the first deploys left to do
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

/** What the control plane asks of itself, a second. */
async function requestRate(cluster: Cluster, forMs: number): Promise<number> {
  const [before, from] = [await requestsOf(cluster), now()];
  await delay(forMs);
  return ((await requestsOf(cluster)) - before) / ((now() - from) / 1_000);
}

/** All that the API server has answered so far, by its own count; watches, which last, are none. */
async function requestsOf({ client }: Cluster): Promise<number> {
  const answer = await client.stream({ path: "/metrics", signal: AbortSignal.timeout(30_000) });
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += chunk as string;
  const counts = [...text.matchAll(/^apiserver_request_total\{([^}]*)\} (\S+)$/gm)];
  return counts
    .filter(([, labels = ""]) => !labels.includes('verb="WATCH"'))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

function toReport(figures: readonly Figures[], times: number, idleMs: number): Report {
  const spreads = (of: (one: Figures) => readonly number[]) => figures.flatMap((one) => spread(of(one)).slice(0, 2));
  const names = sides.map(({ name }) => name);
  const ratios = commands.map((command) => {
    const [ours = NaN, theirs = NaN] = figures.map((one) => median(one.commands.get(command) ?? []));
    return { command, ratio: ours / theirs };
  });
  return {
    how:
      `One deployment of three objects, ${times} times each command, called and waited for; then ${times} commits, from the annotation ` +
      "that asks for a look to Ready. `kluctl gitops` looks once a second whether it is answered. " +
      `Then 1 deployment with \`interval: 10s\` and 20 with \`30s\`, two at a time, each validated, with nothing to do, ${Math.round(idleMs / 1_000)} s each. ` +
      "Requests are what the API server counted, less what the control plane asks by itself.",
    tables: [
      {
        head: ["", ...names.flatMap((name) => [`${name}: median`, "p90"])],
        rows: [
          ...commands.map((command) => [
            `kluctl gitops ${command}`,
            ...spreads((one) => one.commands.get(command) ?? []),
          ]),
          ["annotation → Ready at the new commit", ...spreads(({ commitMs }) => commitMs)],
        ],
      },
      {
        head: ["nothing to do", "loops", "CPU of a loop", "requests of a loop", "server", "with children"],
        rows: figures.flatMap(({ idle }, index) =>
          idle.map(({ deployments, loops, cpuMs, requests, serverBytes, withChildrenBytes }) => [
            `${names[index]}, ${deployments} ${deployments === 1 ? "deployment" : "deployments"}`,
            String(loops),
            milliseconds(cpuMs),
            requests.toFixed(1),
            megabytes(serverBytes),
            megabytes(withChildrenBytes),
          ]),
        ),
      },
    ],
    goals: ratios.map(({ command, ratio }) => ({
      what: `kluctl gitops ${command}: median, ours / peer's`,
      wanted: "≤ 1",
      measured: ratio.toFixed(2),
      met: ratio <= 1,
    })),
    memory: [],
  };
}
