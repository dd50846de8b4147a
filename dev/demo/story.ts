/** The time line of one push, made of what was really seen: the server's log and the API server's watch. */
import { setTimeout as delay } from "node:timers/promises";
import { type Change, findChanges, longChange, shortChange } from "./changes.ts";
import { type DemoCluster, type KubernetesObject, namespace, namespaceOf, readiness, targets } from "./cluster.ts";
import type { ShopRepository } from "./repository.ts";
import type { DemoServer, LogLine } from "./server.ts";

export interface Step {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly what: string;
  readonly detail?: string | undefined;
}

export interface Changed {
  readonly object: string;
  readonly changes: readonly Change[];
}

export interface Story {
  /** The branch that was pushed to. */
  readonly branch: string;
  /** The deployments that the server says it concerns, by name. */
  readonly targets: readonly string[];
  /** What the server says of the others, for people. */
  readonly ignored: readonly string[];
  readonly steps: readonly Step[];
  readonly changed: readonly Changed[];
  /** Adds what the demo itself knows. */
  add(step: Step): void;
  /** Prints steps as they come, until the commit is deployed everywhere or time is up. Throws if it does not get there. */
  tell(commit: string, startedAt: number, print: (line: string) => void): Promise<void>;
  /** A newer push to the same branch: it may be deployed in this one's place. */
  overtake(commit: string): void;
  /** Listens no longer. For a story that is not told. */
  end(): void;
}

export interface StoryDeps {
  readonly server: Pick<DemoServer, "onLine">;
  readonly cluster: DemoCluster;
  readonly shop: Pick<ShopRepository, "repository">;
  /** Pods become ready here; elsewhere the shop's made-up images cannot be pulled. */
  readonly podsRun: boolean;
}

/** Two sources tell of one moment, one a little later than the other: a step is printed when none before it can come. */
const settleMs = 200;
const patienceMs = 60_000;

/** Calls back for each push to the shop; returns how to stop. */
export function onPush(deps: StoryDeps, listener: (story: Story) => void): () => void {
  const { owner, name } = deps.shop.repository;
  return deps.server.onLine((line) => {
    if (line.msg === "push accepted" && line["repo"] === `${owner}/${name}`) listener(startStory(line, deps));
  });
}

function startStory(accepted: LogLine, { server, cluster, podsRun }: StoryDeps): Story {
  const ignored = (accepted["ignored"] ?? {}) as Readonly<Record<string, string>>;
  const concerned = targets.filter((target) => !(`${namespace}/${target}` in ignored));
  const others = Object.entries(ignored).map(([deployment, why]) => `${deployment} ${why}`);
  const steps: Step[] = receipt(accepted, concerned, others);
  const changed: Changed[] = [];
  const rolling = new Set<string>();
  const several = concerned.length > 1;
  const newer: string[] = [];

  const unhear = server.onLine((line) => {
    // Not by delivery: several pushes in a row may be one job's.
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

  /** Adds a step for each deployment that is through; returns those that are not. */
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
    branch: String(accepted["ref"]).replace(/^refs\/(heads|tags)\//, ""),
    targets: concerned,
    ignored: others,
    steps,
    changed,
    add: (step) => void steps.push(step),
    overtake: (commit) => void newer.push(commit),
    async tell(commit, startedAt, print) {
      const deadline = Date.now() + patienceMs;
      const printed = new Set<Step>();
      let waiting: readonly string[] = concerned;
      const show = (before: number) => {
        const due = steps.filter((step) => step.at < before && !printed.has(step)).toSorted((a, b) => a.at - b.at);
        for (const step of due) print(formatStep(step, startedAt));
        due.forEach((step) => printed.add(step));
      };
      try {
        while (waiting.length > 0 || rolling.size > 0) {
          waiting = look(waiting, commit);
          show(Date.now() - settleMs);
          if (Date.now() > deadline)
            throw new Error(`Not done after ${patienceMs / 1_000} s: ${describeRest(waiting, rolling)}.`);
          await delay(10);
        }
        await delay(settleMs);
      } finally {
        end();
        show(Infinity);
      }
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
  if (msg === "checked out") return { at, what: "fetched", detail: `commit ${String(line["commit"]).slice(0, 7)}` };
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

/** As `kubectl rollout status` sees it. */
function isRolledOut({ metadata, spec, status = {} }: KubernetesObject): boolean {
  const replicas = Number(spec?.["replicas"] ?? 1);
  const counts = ["replicas", "updatedReplicas", "availableReplicas"].map((name) => Number(status[name] ?? 0));
  return Number(status["observedGeneration"]) >= (metadata.generation ?? 0) && counts.every((n) => n === replicas);
}

function describeRest(waiting: readonly string[], rolling: ReadonlySet<string>): string {
  return [
    ...waiting.map((target) => `${namespace}/${target} is not ready`),
    ...[...rolling].map((name) => `${name} is not rolled out`),
  ].join(", ");
}

function formatStep({ at, what, detail = "" }: Step, startedAt: number): string {
  const seconds = ((at - startedAt) / 1_000).toFixed(2).padStart(6);
  return `  ${seconds} s  ${what.padEnd(18)}${detail}`.trimEnd();
}

export function formatChanged({ object, changes }: Changed): string[] {
  return [`  ${object}`, ...changes.flatMap(longChange).map((line) => `  ${line}`)];
}
