/** Follows one push through the server's log and the watch of the API server. */
import { type Change, findChanges, longChange, shortChange } from "./changes.ts";
import { type DemoCluster, type KubernetesObject, namespace, namespaceOf, readiness, targets } from "./cluster.ts";
import type { PushedShop } from "./repository.ts";
import type { DemoServer, LogLine } from "./server.ts";
import type { Step, Strand } from "./time-line.ts";

export interface Changed {
  readonly object: string;
  readonly changes: readonly Change[];
}

export interface PushStory {
  /** The branch that was pushed to. */
  readonly branch: string;
  /** Names of the deployments that the push affects, according to the server. */
  readonly targets: readonly string[];
  /** Messages of the server about the other deployments. */
  readonly ignored: readonly string[];
  readonly steps: readonly Step[];
  readonly changed: readonly Changed[];
  /** Waits until the commit is deployed everywhere. */
  until(commit: string): Strand;
  /** Adds a newer push to the same branch, which may be deployed instead of this one. */
  overtake(commit: string): void;
  /** Stops following a push that is not shown. */
  end(): void;
}

export interface PushStoriesDeps {
  readonly server: Pick<DemoServer, "onLine">;
  readonly cluster: DemoCluster;
  readonly shop: Pick<PushedShop, "repository">;
  /** True if pods become ready; otherwise the shop's fictitious images cannot be pulled. */
  readonly podsRun: boolean;
}

export interface PushStories {
  /** Calls back for each push to the shop; returns a function that stops this. */
  onEvent(listener: (story: PushStory) => void): () => void;
}

export function createPushStories(deps: PushStoriesDeps): PushStories {
  const { owner, name } = deps.shop.repository;
  return {
    onEvent: (listener) =>
      deps.server.onLine((line) => {
        const beginning = delivered(line, `${owner}/${name}`) ?? found(line);
        if (beginning) listener(startStory(beginning, deps));
      }),
  };
}

/** How the server learned of a push. */
interface Beginning {
  readonly ref: string;
  readonly concerned: readonly (typeof targets)[number][];
  readonly others: readonly string[];
  readonly steps: readonly Step[];
}

function delivered(line: LogLine, repo: string): Beginning | undefined {
  if (line.msg !== "push accepted" || line["repo"] !== repo) return undefined;
  const ignored = (line["ignored"] ?? {}) as Readonly<Record<string, string>>;
  const concerned = targets.filter((target) => !(`${namespace}/${target}` in ignored));
  const others = Object.entries(ignored).map(([deployment, why]) => `${deployment} ${why}`);
  return { ref: String(line["ref"]), concerned, others, steps: receipt(line, concerned, others) };
}

/** Without webhooks, the server notices it when it asks git. */
function found(line: LogLine): Beginning | undefined {
  if (line.msg !== "found new commits without a webhook" || line["namespace"] !== namespace) return undefined;
  const concerned = targets.filter((target) => target === line["name"]);
  const detail = `commit ${String(line["commit"]).slice(0, 7)}, by asking git`;
  const steps = [
    { at: line.at, what: "found", detail },
    { at: line.at, what: "queued", detail: `${namespace}/${concerned.join()}` },
  ];
  return { ref: String(line["ref"]), concerned, others: [], steps };
}

function startStory(beginning: Beginning, { server, cluster, podsRun }: PushStoriesDeps): PushStory {
  const { concerned, others } = beginning;
  const steps: Step[] = [...beginning.steps];
  const changed: Changed[] = [];
  const rolling = new Set<string>();
  const several = concerned.length > 1;
  const newer: string[] = [];

  const unhear = server.onLine((line) => {
    // Not matched by delivery: several pushes in a row may end up in one job.
    if (line["namespace"] !== namespace || !concerned.some((target) => target === line["name"])) return;
    const step = fromLog(line);
    if (step) steps.push(several ? { ...step, detail: `${String(line["name"])}: ${step.detail}` } : step);
  });
  const unwatch = cluster.onChange((object, before, at) => {
    const name = `${object.kind} ${object.metadata.namespace}/${object.metadata.name}`;
    if (!concerned.some((target) => namespaceOf(target) === object.metadata.namespace)) return;
    const changes = before ? findChanges(before, object) : [];
    if (changes.length > 0) {
      steps.push({ at, what: "applied", detail: [name, ...changes.map(shortChange)].join("  ") });
      changed.push({ object: name, changes });
      if (podsRun && object.kind === "Deployment") rolling.add(name);
    }
    if (rolling.has(name) && isRolledOut(object)) {
      rolling.delete(name);
      const pods = Number(object.status?.["availableReplicas"] ?? 0);
      steps.push({ at, what: "rolled out", detail: `${name}  ${pods} of ${pods} pods are available` });
    }
  });

  function end(): void {
    unhear();
    unwatch();
  }

  /** Adds a step for each deployment that is ready; returns the others. */
  function look(waiting: readonly string[], commit: string): string[] {
    return waiting.filter((target) => {
      const object = cluster.find("KluctlDeployment", namespace, target);
      const states = [commit, ...newer].map((id) => readiness(object, id));
      const state = states.find((one) => one !== "waiting") ?? "waiting";
      if (state instanceof Error) throw new Error(`${namespace}/${target} failed: ${state.message}`);
      if (state === "ready") steps.push({ at: Date.now(), what: "Ready", detail: readyMessage(target, object) });
      return state === "waiting";
    });
  }

  return {
    branch: beginning.ref.replace(/^refs\/(heads|tags)\//, ""),
    targets: concerned,
    ignored: others,
    steps,
    changed,
    overtake: (commit) => void newer.push(commit),
    until(commit) {
      let waiting: readonly string[] = concerned;
      return {
        steps,
        missing() {
          waiting = look(waiting, commit);
          return [
            ...waiting.map((target) => `${namespace}/${target} is not ready`),
            ...[...rolling].map((name) => `${name} is not rolled out`),
          ];
        },
        end,
      };
    },
    end,
  };
}

function receipt(line: LogLine, concerned: readonly string[], others: readonly string[]): Step[] {
  const ms = Number(line["ms"] ?? 0);
  const names = concerned.map((target) => `${namespace}/${target}`).join(", ");
  return [
    { at: line.at - ms, what: "webhook received", detail: `${String(line["forge"])}, push, signature good` },
    { at: line.at, what: "queued", detail: others.length > 0 ? `${names}  (${others.join("; ")})` : names },
  ];
}

function fromLog(line: LogLine): (Step & { detail: string }) | undefined {
  const { at, msg } = line;
  if (msg === "source checked out")
    return { at, what: "fetched", detail: `commit ${String(line["commit"]).slice(0, 7)}` };
  if (msg === "compared")
    return { at, what: "compared", detail: `${count(line, "new", "changed", "orphan")} different` };
  return undefined;
}

function count(line: LogLine, ...fields: readonly string[]): string {
  const objects = fields.reduce((sum, field) => sum + Number(line[field] ?? 0), 0);
  return `${objects} ${objects === 1 ? "object" : "objects"}`;
}

function readyMessage(target: string, object: KubernetesObject | undefined): string {
  const conditions = (object?.status?.["conditions"] ?? []) as { type: string; message: string }[];
  return `${namespace}/${target}  ${conditions.find(({ type }) => type === "Ready")?.message ?? ""}`;
}

/** True if the rollout is complete by the rules of `kubectl rollout status`. */
function isRolledOut({ metadata, spec, status = {} }: KubernetesObject): boolean {
  const replicas = Number(spec?.["replicas"] ?? 1);
  const counts = ["replicas", "updatedReplicas", "availableReplicas"].map((name) => Number(status[name] ?? 0));
  return Number(status["observedGeneration"]) >= (metadata.generation ?? 0) && counts.every((n) => n === replicas);
}

export function formatChanged({ object, changes }: Changed): string[] {
  return [`  ${object}`, ...changes.flatMap(longChange).map((line) => `  ${line}`)];
}
