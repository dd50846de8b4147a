/**
 * Budgets and quotas that stop something else: the eviction of pods, so that nodes cannot be drained, or the creation of
 * pods and other objects. Rolling updates do not wait for disruption budgets.
 */
import type { ObjectRef, ResultObject } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { entriesIn, idOf, listIn } from "./fields.ts";
import { hasPods, templateOf } from "./pods.ts";
import { isLess } from "./quantity.ts";
import { parseState, type States } from "./states.ts";

/** The workloads of a result, by namespace. */
export type Workloads = ReadonlyMap<string, readonly Workload[]>;

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

/** What a disruption budget or a quota newly stops, in words. */
export function describeBudget(ref: ObjectRef, states: States, workloads: () => Workloads): string[] {
  if (isDisruptionBudget(ref)) return describeDisruptions(ref, states, workloads);
  if (idOf(ref) === "/ResourceQuota") return describeQuota(states);
  return [];
}

export function isDisruptionBudget(ref: ObjectRef): boolean {
  return idOf(ref) === "policy/PodDisruptionBudget";
}

const noEviction = "it allows no eviction: nodes that run its pods cannot be drained";

function describeDisruptions({ namespace = "" }: ObjectRef, states: States, workloads: () => Workloads): string[] {
  const near = () => workloads().get(namespace) ?? [];
  const blocksNow = blocksEviction(states.after, (selector) => sumOf(near(), selector, "after"));
  const blocked = blocksEviction(states.before, (selector) => sumOf(near(), selector, "before"));
  return blocksNow && !blocked ? [noEviction] : [];
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

/** The pods of all workloads that the selector matches, if all are known. */
function sumOf(workloads: readonly Workload[], selector: unknown, when: keyof Workload): number | undefined {
  const wanted = [...entriesIn(selector, "matchLabels")];
  // Without labels it selects all pods of the namespace, also those of other projects.
  const isUnclear =
    wanted.length === 0 || wanted.length > mostLabels || listIn(selector, "matchExpressions").length > 0;
  if (isUnclear || workloads.length > mostWorkloads) return undefined;
  const counts = workloads
    .map((workload) => workload[when])
    .filter(({ labels }) => wanted.every(([name, value]) => labels.get(name) === value))
    .map(({ replicas }) => replicas);
  return counts.reduce<number | undefined>(
    (sum, count) => (sum === undefined || count === undefined ? undefined : sum + count),
    0,
  );
}

export function workloadsOf(objects: readonly ResultObject[]): Workloads {
  const left = objects.filter(({ ref, deleted, orphan }) => !deleted && !orphan && hasPods(ref));
  const groups = Map.groupBy(left, ({ ref }) => ref.namespace ?? "");
  return new Map([...groups].map(([namespace, group]) => [namespace, group.map(toWorkload)]));
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
function describeQuota({ before, after }: States): string[] {
  if (before === undefined) return [];
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
