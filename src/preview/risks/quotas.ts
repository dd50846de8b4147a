/**
 * Quotas that the pods of a namespace exceed after the merge. What is counted is certain, and so is a lower bound: the numbers of
 * pods and the requests and limits that the project sets, and beside them what the quota's own status counts. What other
 * projects, autoscalers and defaults of the namespace add is not known.
 */
import type { ObjectRef, ResultObject } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { entriesIn, idOf, listIn } from "./fields.ts";
import { isScalable, templateOf } from "./pods.ts";
import { parseQuantity } from "./quantity.ts";
import { parseState } from "./states.ts";

export interface Quotas {
  /** The amounts that the workload needs, before and after. */
  amountsOf(ref: ObjectRef): Change | undefined;
  /** The amounts of which the namespace newly has too little. */
  readonly exceeded: ReadonlySet<Amount>;
}

type Amount = "pods" | "requests.cpu" | "requests.memory" | "limits.cpu" | "limits.memory";
type Amounts = Readonly<Record<Amount, number>>;

interface Change {
  readonly before: Amounts;
  readonly after: Amounts;
}

/** What a workload that grows newly exceeds, in words. */
export function describeExcess(ref: ObjectRef, quotas: () => Quotas): string[] {
  const { amountsOf, exceeded } = quotas();
  if (exceeded.size === 0) return [];
  const own = amountsOf(ref);
  const grows = own !== undefined && [...exceeded].some((amount) => own.after[amount] > own.before[amount]);
  return grows ? ["its pods exceed a quota of their namespace: those beyond it are not created"] : [];
}

/** The names that quotas use: https://kubernetes.io/docs/concepts/policy/resource-quotas/ */
const amounts: Readonly<Record<string, Amount>> = {
  pods: "pods",
  "count/pods": "pods",
  cpu: "requests.cpu",
  "requests.cpu": "requests.cpu",
  memory: "requests.memory",
  "requests.memory": "requests.memory",
  "limits.cpu": "limits.cpu",
  "limits.memory": "limits.memory",
};
const all = ["pods", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"] as const;

/** Of more, nothing is counted. */
const mostCounted = 1_000;

/** `objects`: all of the namespace. */
export function quotasOf(quotas: readonly ResultObject[], objects: readonly ResultObject[]): Quotas {
  const limits = quotas.slice(0, mostCounted).flatMap(limitsOf);
  const workloads = limits.length === 0 ? [] : objects.filter(({ ref, orphan }) => isScalable(ref) && !orphan);
  if (workloads.length === 0 || workloads.length > mostCounted) {
    return { amountsOf: () => undefined, exceeded: new Set() };
  }
  const changes = new Map(workloads.map((one) => [nameOf(one.ref), changeOf(one)]));
  const [before, after] = [sumOf([...changes.values()], "before"), sumOf([...changes.values()], "after")];
  const exceeds = limits.filter(({ amount, most, used }) => {
    const isMore = (counted: number) => isAbove(counted, most);
    const [had, has] = [Math.max(before[amount], used), Math.max(after[amount], used + after[amount] - before[amount])];
    return isMore(has) && !isMore(had);
  });
  return { amountsOf: (ref) => changes.get(nameOf(ref)), exceeded: new Set(exceeds.map(({ amount }) => amount)) };
}

/** Within its namespace. */
function nameOf(ref: ObjectRef): string {
  return `${idOf(ref)} ${ref.name}`;
}

interface Limit {
  readonly amount: Amount;
  readonly most: number;
  /** By all pods of the namespace, as the API server counts. */
  readonly used: number;
}

/** A quota with a scope counts only some of the pods. */
function limitsOf({ rendered, remote }: ResultObject): Limit[] {
  const quota = parseState(rendered);
  if (listIn(quota, "spec", "scopes").length > 0 || field(quota, "spec", "scopeSelector") !== undefined) return [];
  const used = entriesIn(parseState(remote), "status", "used");
  return [...entriesIn(quota, "spec", "hard")].flatMap(([name, value]) => {
    const [amount, most] = [Object.hasOwn(amounts, name) ? amounts[name] : undefined, parseQuantity(value)];
    if (amount === undefined || most === undefined) return [];
    return [{ amount, most, used: parseQuantity(used.get(name)) ?? 0 }];
  });
}

/** Sums of fractions differ in the last bits. */
function isAbove(sum: number, most: number): boolean {
  return sum - most > 1e-9 * Math.max(1, Math.abs(most));
}

function changeOf({ ref, rendered, remote, new: isNew, deleted }: ResultObject): Change {
  const [before, after] = [isNew ? undefined : parseState(remote), parseState(rendered)];
  // What kluctl deletes and creates again is rendered, too.
  const isGone = deleted && rendered === undefined;
  // Where the project sets no number, it is usually a matter of an autoscaler: what is not certain counts as none, in both.
  const isSet = isGone || typeof field(after, "spec", "replicas") === "number";
  const amountsOf = (state: unknown) =>
    isSet ? toAmounts(templateOf(ref, state), field(state, "spec", "replicas")) : none;
  return { before: amountsOf(before), after: amountsOf(after) };
}

const none: Amounts = { pods: 0, "requests.cpu": 0, "requests.memory": 0, "limits.cpu": 0, "limits.memory": 0 };

function toAmounts(template: unknown, replicas: unknown): Amounts {
  const pods = typeof replicas === "number" && replicas > 0 ? replicas : 0;
  const containers = listIn(template, "spec", "containers");
  const sum = (read: (container: unknown) => unknown) =>
    pods * containers.reduce<number>((total, container) => total + Math.max(0, parseQuantity(read(container)) ?? 0), 0);
  const limit = (name: string) => (container: unknown) => field(container, "resources", "limits", name);
  // The API server takes a limit as the request where there is none.
  const request = (name: string) => (container: unknown) =>
    field(container, "resources", "requests", name) ?? limit(name)(container);
  return {
    pods,
    "requests.cpu": sum(request("cpu")),
    "requests.memory": sum(request("memory")),
    "limits.cpu": sum(limit("cpu")),
    "limits.memory": sum(limit("memory")),
  };
}

function sumOf(changes: readonly Change[], when: keyof Change): Amounts {
  const total = (amount: Amount) => changes.reduce((sum, change) => sum + change[when][amount], 0);
  return Object.fromEntries(all.map((amount) => [amount, total(amount)])) as unknown as Amounts;
}
