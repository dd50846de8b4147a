/** Towline and Flux, each with deployments of one repository, which are triggered at the moment a push is done. */
import { createLimit } from "../../src/kit/limit.ts";
import type { Flux } from "../parts/flux.ts";
import type { FileChanges } from "../parts/work-copy.ts";
import { type Cluster, isReady, type KubernetesObject, type Seen } from "./cluster.ts";
import { compileServer } from "./compiled.ts";
import * as content from "./flux-project.ts";
import { deliver, settled } from "./population.ts";
import { type Push, pushChange } from "./project.ts";
import type { Repository, Stage } from "./stage.ts";
import type { Ran } from "./towline.ts";
import { cpuSeconds, ownCpuSeconds, startSampling, type Usage } from "./usage.ts";

export interface Side {
  readonly name: string;
  /** Creates deployments up to this number, and resolves when all of them are deployed. */
  grow(count: number): Promise<void>;
  /** Pushes another release, triggers the side, and resolves when all deployments are done with it. */
  push(): Promise<Pushed>;
  stop(): Promise<void>;
}

export interface Pushed {
  /** From the end of the push until all objects were seen changed. */
  readonly changedMs: number;
  /** CPU time until the side was idle again. */
  readonly cpuMs: number;
  /** Of that, the server process of Towline itself. */
  readonly ownCpuMs: number;
  readonly memoryBytes: number;
  /** The processes that Towline ran for it; empty for Flux. */
  readonly ran: readonly Ran[];
  readonly doneAt: number;
  readonly changedAt: number;
}

/** What the two differ in. */
interface Tool {
  readonly name: string;
  readonly pids: readonly number[];
  readonly repository: Repository;
  changes(release: string): FileChanges;
  create(name: string): Promise<unknown>;
  trigger(commit: string): Promise<void>;
  readonly statuses: Seen;
  isDone(object: KubernetesObject | undefined, commit: string): boolean;
  /** Resolves when nothing is left to do. */
  idle(): Promise<void>;
  /** CPU seconds of Towline's server process itself, and the processes that it has run so far. */
  ownCpu(): number;
  processes(): Promise<readonly Ran[]>;
  stop(): Promise<void>;
}

const patienceMs = 300_000;
/** Number of concurrent requests to create deployments. */
const atOnce = 16;

/** `flux` keeps running: it belongs to the caller. */
export async function startFluxSide(stage: Stage, flux: Flux, namespace: string): Promise<Side> {
  const { cluster } = stage;
  await cluster.createNamespace(namespace);
  const repository = await stage.countedRepository(namespace, content.manifests(namespace, "0"));
  await createGitRepository(cluster, namespace, "source", repository.url);
  const statuses = await watch(stage, "Kustomization", namespace);
  return createSide(stage, namespace, {
    name: "Flux",
    ...{ pids: flux.pids, repository, statuses },
    changes: (release) => content.manifests(namespace, release),
    create: (name) => createKustomization(cluster, namespace, name, "source"),
    trigger: () => requestFetch(cluster, namespace, "source"),
    isDone: content.isApplied,
    idle: () => Promise.resolve(),
    ownCpu: () => 0,
    processes: () => Promise.resolve([]),
    stop: () => suspend(cluster, namespace, "source"),
  });
}

export async function startTowlineSide(stage: Stage, namespace: string): Promise<Side> {
  const { cluster } = stage;
  await cluster.createNamespace(namespace);
  const repository = await stage.countedRepository(namespace, content.kluctlProject("0"));
  const program = await compileServer(stage.stateDir);
  const statuses = await watch(stage, "KluctlDeployment", namespace);
  const server = await stage.startTowline({ name: namespace, namespace, program });
  return createSide(stage, namespace, {
    name: "Towline",
    ...{ pids: [server.pid], repository, statuses },
    changes: content.kluctlRelease,
    create: (name) =>
      cluster.createDeployment(namespace, name, content.deploymentSpec(namespace, name, repository.url)),
    trigger: (commit) => deliver(server, repository.url, commit),
    isDone: isReady,
    idle: () => settled(server),
    ownCpu: () => ownCpuSeconds(server.pid),
    processes: () => server.processes(),
    stop: () => server.stop(),
  });
}

async function createSide(stage: Stage, namespace: string, tool: Tool): Promise<Side> {
  const { repository, statuses, pids } = tool;
  const changed = await watch(stage, "ConfigMap", namespace);
  const names: string[] = [];
  let [release, commit] = [0, repository.first];

  const changedBy = (value: string) =>
    changed.until(`release ${value}`, (all) => content.haveRelease(all, names, value), patienceMs);
  const recorded = (of: string) =>
    statuses.until(`done with ${of}`, (all) => names.every((name) => tool.isDone(all.get(name), of)), patienceMs);

  return {
    name: tool.name,
    async grow(count) {
      const more = Array.from({ length: count - names.length }, (_, i) => nameOf(names.length + i));
      const limit = createLimit(atOnce);
      await Promise.all(more.map((name) => limit.run(() => tool.create(name))));
      names.push(...more);
      await Promise.all([changedBy(String(release)), recorded(commit)]);
      await tool.idle();
    },
    async push() {
      const value = String(++release);
      const [cpuBefore, ownBefore] = [cpuOf(pids), tool.ownCpu()];
      const known = (await tool.processes()).length;
      const sampled = pids.map((pid) => startSampling(pid));
      const push = await pushChange(repository.copy, tool.changes(value), { message: `Release ${value}` });
      commit = push.commit;
      await tool.trigger(commit);
      const changedAt = await changedBy(value);
      await recorded(commit);
      await tool.idle();
      return {
        ...momentsOf(push, changedAt),
        cpuMs: (cpuOf(pids) - cpuBefore) * 1_000,
        ownCpuMs: (tool.ownCpu() - ownBefore) * 1_000,
        memoryBytes: sampled.map((take) => take()).reduce(addMemory, 0),
        ran: (await tool.processes()).slice(known),
      };
    },
    stop: tool.stop,
  };
}

function momentsOf({ doneAt }: Push, changedAt: number) {
  return { doneAt, changedAt, changedMs: changedAt - doneAt };
}

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
}

function addMemory(sum: number, { withChildrenBytes }: Usage): number {
  return sum + withChildrenBytes;
}

function nameOf(index: number): string {
  return `d${String(index).padStart(3, "0")}`;
}

/** Mirrors the resources of a namespace until the measurement is over. */
export async function watch({ cluster, defer }: Stage, kind: Parameters<Cluster["watch"]>[0], namespace: string) {
  const seen = await cluster.watch(kind, namespace);
  defer(() => seen.stop());
  return seen;
}

const sources = (namespace: string) => `/apis/source.toolkit.fluxcd.io/v1/namespaces/${namespace}/gitrepositories`;

export async function createGitRepository({ client }: Cluster, namespace: string, name: string, url: string) {
  const body = content.gitRepository(namespace, name, url);
  await client.request({ method: "POST", path: sources(namespace), body });
}

export async function createKustomization({ client }: Cluster, namespace: string, name: string, source: string) {
  const path = `/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/${namespace}/kustomizations`;
  await client.request({ method: "POST", path, body: content.kustomization(namespace, name, source) });
}

/** As `flux reconcile source git` does. */
async function requestFetch({ client }: Cluster, namespace: string, name: string): Promise<void> {
  const annotations = { "reconcile.fluxcd.io/requestedAt": new Date().toISOString() };
  const body = { metadata: { annotations } };
  await client.request({ method: "PATCH", path: `${sources(namespace)}/${name}`, body });
}

/** Flux does nothing for it any more. */
export async function suspend({ client }: Cluster, namespace: string, name: string): Promise<void> {
  await client.request({ method: "PATCH", path: `${sources(namespace)}/${name}`, body: { spec: { suspend: true } } });
}
