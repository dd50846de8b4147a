/**
 * Budgets and quotas that stop something else: the eviction of pods, so that nodes cannot be drained, or the creation of
 * pods and other objects. Rolling updates do not wait for disruption budgets. Only budgets and quotas of the same result are
 * known.
 */
import type { ObjectRef, ResultObject } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { entriesIn, idOf, listIn } from "./fields.ts";
import { hasPods, isScalable, templateOf } from "./pods.ts";
import { isLess } from "./quantity.ts";
import { describeExcess, type Quotas, quotasOf } from "./quotas.ts";
import { parseState, type States } from "./states.ts";

/** What a result has in one namespace. Read when it is needed first. */
export interface Neighbours {
  workloads(): readonly Workload[];
  /** The disruption budgets that do not change. */
  budgets(): readonly Budget[];
  quotas(): Quotas;
}

interface Workload {
  readonly before: Replicas;
  readonly after: Replicas;
}

/** The pods of a workload. */
interface Replicas {
  readonly labels: ReadonlyMap<string, unknown>;
  /** `undefined` if it is not known. */
  readonly replicas: number | undefined;
}

interface Budget {
  readonly selector: unknown;
  /** Whether it allows no eviction after the merge, although it did before. */
  newlyBlocks(): boolean;
}

/** What a disruption budget or a quota newly stops, in words. */
export function describeBudget(ref: ObjectRef, states: States, near: (namespace: string) => Neighbours): string[] {
  const { namespace = "" } = ref;
  if (isDisruptionBudget(ref)) return newlyBlocksEviction(states, near(namespace).workloads) ? [noEviction] : [];
  if (isQuota(ref)) return describeQuota(ref, states, near(namespace).quotas);
  if (!isScalable(ref)) return [];
  return [...describeScaledDown(ref, states, near(namespace)), ...describeExcess(ref, near(namespace).quotas)];
}

/** Whether it limits other objects of its namespace. */
export function isLimit(ref: ObjectRef): boolean {
  return isDisruptionBudget(ref) || isQuota(ref);
}

function isQuota(ref: ObjectRef): boolean {
  return idOf(ref) === "/ResourceQuota";
}

export function isDisruptionBudget(ref: ObjectRef): boolean {
  return idOf(ref) === "policy/PodDisruptionBudget";
}

const noEviction = "it allows no eviction: nodes that run its pods cannot be drained";

function newlyBlocksEviction({ before, after }: States, workloads: () => readonly Workload[]): boolean {
  const blocksNow = blocksEviction(after, (selector) => sumOf(workloads(), selector, "after"));
  return blocksNow && !blocksEviction(before, (selector) => sumOf(workloads(), selector, "before"));
}

const leftWithoutEviction =
  "with so few pods, its disruption budget allows no eviction: nodes that run them cannot be drained";

/** A workload that shrinks to what a budget, which stays as it is, wants to keep. */
function describeScaledDown(ref: ObjectRef, { before, after }: States, { budgets }: Neighbours): string[] {
  if (!isLess(field(after, "spec", "replicas"), field(before, "spec", "replicas"))) return [];
  const labels = entriesIn(templateOf(ref, after), "metadata", "labels");
  const concerned = budgets().filter(({ selector }) => matches(labels, [...entriesIn(selector, "matchLabels")]));
  return concerned.some((budget) => budget.newlyBlocks()) ? [leftWithoutEviction] : [];
}

function matches(labels: ReadonlyMap<string, unknown>, wanted: readonly (readonly [string, unknown])[]): boolean {
  return wanted.every(([name, value]) => labels.get(name) === value);
}

/** Percentages are rounded up: https://kubernetes.io/docs/tasks/run-application/configure-pdb/ */
function blocksEviction(budget: unknown, countPods: (selector: unknown) => number | undefined): boolean {
  const [most, least] = ["maxUnavailable", "minAvailable"].map((name) => field(budget, "spec", name));
  if (most === 0 || percentOf(most) === 0) return true;
  const percent = percentOf(least);
  if (percent !== undefined && percent >= 100) return true;
  if (percent === undefined && typeof least !== "number") return false;
  const pods = countPods(field(budget, "spec", "selector"));
  if (pods === undefined || pods === 0) return false;
  return (percent === undefined ? Number(least) : Math.ceil((percent * pods) / 100)) >= pods;
}

function percentOf(value: unknown): number | undefined {
  return typeof value === "string" && /^\d{1,4}%$/.test(value) ? Number(value.slice(0, -1)) : undefined;
}

/** Of more, or of longer selectors, the number of pods counts as unknown: a budget is compared with each workload. */
const mostWorkloads = 1_000;
const mostLabels = 20;
const mostBudgets = 100;

/** The pods of all workloads that the selector matches, if all are known. */
function sumOf(workloads: readonly Workload[], selector: unknown, when: keyof Workload): number | undefined {
  const wanted = [...entriesIn(selector, "matchLabels")];
  // Without labels it selects all pods of the namespace, also those of other projects.
  const isUnclear =
    wanted.length === 0 || wanted.length > mostLabels || listIn(selector, "matchExpressions").length > 0;
  if (isUnclear || workloads.length > mostWorkloads) return undefined;
  const counts = workloads
    .map((workload) => workload[when])
    .filter(({ labels }) => matches(labels, wanted))
    .map(({ replicas }) => replicas);
  return counts.reduce<number | undefined>(
    (sum, count) => (sum === undefined || count === undefined ? undefined : sum + count),
    0,
  );
}

export function createNeighbours(objects: readonly ResultObject[]): (namespace: string) => Neighbours {
  const groups = once(() => Map.groupBy(objects, ({ ref }) => ref.namespace ?? ""));
  const known = new Map<string, Neighbours>();
  return (namespace) => {
    const before = known.get(namespace);
    if (before !== undefined) return before;
    const own = groups().get(namespace) ?? [];
    const left = own.filter(({ deleted, orphan }) => !deleted && !orphan);
    const workloads = once(() => left.filter(({ ref }) => hasPods(ref)).map(toWorkload));
    const neighbours: Neighbours = {
      workloads,
      budgets: once(() =>
        left
          .filter((one) => isDisruptionBudget(one.ref) && !one.new && one.changes.length === 0)
          .slice(0, mostBudgets)
          .map(({ rendered }) => {
            const state = parseState(rendered);
            const newlyBlocks = once(() => newlyBlocksEviction({ before: state, after: state }, workloads));
            return { selector: field(state, "spec", "selector"), newlyBlocks };
          }),
      ),
      quotas: once(() =>
        quotasOf(
          left.filter(({ ref }) => isQuota(ref)),
          own,
        ),
      ),
    };
    known.set(namespace, neighbours);
    return neighbours;
  };
}

function once<T>(find: () => T): () => T {
  let found: { readonly value: T } | undefined;
  return () => (found ??= { value: find() }).value;
}

/** Only numbers of pods that the project sets are certain: others are usually a matter of an autoscaler. */
function toWorkload({ ref, rendered, remote }: ResultObject): Workload {
  const [before, after] = [parseState(remote), parseState(rendered)];
  const podsIn = (state: unknown): Replicas => {
    const replicas = field(state, "spec", "replicas");
    const isSet = typeof replicas === "number" && field(after, "spec", "replicas") !== undefined;
    return {
      labels: entriesIn(templateOf(ref, state), "metadata", "labels"),
      replicas: isSet ? replicas : undefined,
    };
  };
  return { before: podsIn(before), after: podsIn(after) };
}

/** What no limit restricted before, an added one does. */
function describeQuota(ref: ObjectRef, { before, after }: States, quotas: () => Quotas): string[] {
  if (before === undefined)
    return quotas().isExceededAtOnce(ref)
      ? ["the project's pods exceed it already: those that end are not replaced"]
      : [];
  const known = entriesIn(before, "spec", "hard");
  const lowered = [...entriesIn(after, "spec", "hard")]
    .filter(([name, value]) => !known.has(name) || isLess(value, known.get(name)))
    .map(([name]) => name);
  if (lowered.length === 0) return [];
  const what = lowered.every((name) => ofPods.test(name)) ? "pods" : "objects";
  return [`one of its limits is lowered or new: ${what} that exceed it are not created`];
}

/** https://kubernetes.io/docs/concepts/policy/resource-quotas/ */
const ofPods = /^(?:(?:count\/)?pods|(?:(?:requests|limits)\.)?(?:cpu|memory|ephemeral-storage))$/;
