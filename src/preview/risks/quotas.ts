/**
 * Quotas that the pods of a namespace exceed after the merge. What is counted is a lower bound: the numbers of pods and the
 * requests and limits that the project sets. What the quota's own status counts beside them, such as pods of other projects, is
 * added if the share of the project's own pods in it is known.
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
  /** Whether this quota is new, and less than what the project has in its namespace already. */
  isExceededAtOnce(quota: ObjectRef): boolean;
}

type Amount = "pods" | "requests.cpu" | "requests.memory" | "limits.cpu" | "limits.memory";
type Amounts = Readonly<Record<Amount, number>>;

interface Change {
  readonly before: Amounts;
  readonly after: Amounts;
  /** The amounts that `before` has as the API server counts them. */
  readonly exact: ReadonlySet<Amount>;
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
const allAmounts = ["pods", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"] as const;

/** Of more, nothing is counted. */
const mostCounted = 1_000;

/** `objects`: all of the namespace. */
export function quotasOf(quotas: readonly ResultObject[], objects: readonly ResultObject[]): Quotas {
  const limits = quotas.slice(0, mostCounted).flatMap(limitsOf);
  const workloads = limits.length === 0 ? [] : objects.filter(({ ref, orphan }) => isScalable(ref) && !orphan);
  if (workloads.length === 0 || workloads.length > mostCounted) {
    return { amountsOf: () => undefined, exceeded: new Set(), isExceededAtOnce: () => false };
  }
  const changes = new Map(workloads.map((one) => [nameOf(one.ref), changeOf(one)]));
  const all = [...changes.values()];
  const [before, after] = [sumOf(all, "before"), sumOf(all, "after")];
  const exceeds = limits.filter(({ amount, most, used }) => {
    const others = all.every(({ exact }) => exact.has(amount)) ? used - before[amount] : 0;
    const [had, has] = [Math.max(before[amount], used), Math.max(after[amount], others + after[amount])];
    return isAbove(has, most) && !isAbove(had, most);
  });
  const atOnce = limits.filter(
    ({ isNew, amount, most }) => isNew && isAbove(before[amount], most) && isAbove(after[amount], most),
  );
  const namesAtOnce = new Set(atOnce.map(({ quota }) => quota));
  return {
    amountsOf: (ref) => changes.get(nameOf(ref)),
    exceeded: new Set(exceeds.map(({ amount }) => amount)),
    isExceededAtOnce: ({ name }) => namesAtOnce.has(name),
  };
}

/** Within its namespace. */
function nameOf(ref: ObjectRef): string {
  return `${idOf(ref)} ${ref.name}`;
}

interface Limit {
  /** The name of its quota. */
  readonly quota: string;
  readonly isNew: boolean;
  readonly amount: Amount;
  readonly most: number;
  /** By all pods of the namespace, as the API server counts. */
  readonly used: number;
}

/** A quota with a scope counts only some of the pods. */
function limitsOf({ ref, rendered, remote, new: isNew }: ResultObject): Limit[] {
  const quota = parseState(rendered);
  if (listIn(quota, "spec", "scopes").length > 0 || field(quota, "spec", "scopeSelector") !== undefined) return [];
  const used = entriesIn(parseState(remote), "status", "used");
  return [...entriesIn(quota, "spec", "hard")].flatMap(([name, value]) => {
    const [amount, most] = [Object.hasOwn(amounts, name) ? amounts[name] : undefined, parseQuantity(value)];
    if (amount === undefined || most === undefined) return [];
    return [{ quota: ref.name, isNew, amount, most, used: parseQuantity(used.get(name)) ?? 0 }];
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
  const exact = new Set(allAmounts.filter((amount) => !isSet || isExact(amount, templateOf(ref, before))));
  return { before: amountsOf(before), after: amountsOf(after), exact };
}

const none: Amounts = { pods: 0, "requests.cpu": 0, "requests.memory": 0, "limits.cpu": 0, "limits.memory": 0 };

/** A default of the namespace counts where a container has no amount, and init containers where they need more than the others. */
function isExact(amount: Amount, template: unknown): boolean {
  if (amount === "pods") return true;
  const spec = field(template, "spec");
  if (["resources", "runtimeClassName"].some((name) => field(spec, name) !== undefined)) return false;
  const containers = listIn(spec, "containers");
  return listIn(spec, "initContainers").length === 0 && containers.every((one) => read(amount, one) !== undefined);
}

/** The API server takes a limit as the request where there is none. */
function read(amount: Exclude<Amount, "pods">, container: unknown): unknown {
  const [kind, name] = amount.split(".") as ["requests" | "limits", string];
  const limit = field(container, "resources", "limits", name);
  return kind === "limits" ? limit : (field(container, "resources", "requests", name) ?? limit);
}

function toAmounts(template: unknown, replicas: unknown): Amounts {
  const pods = typeof replicas === "number" && replicas > 0 ? replicas : 0;
  const containers = listIn(template, "spec", "containers");
  const sum = (amount: Exclude<Amount, "pods">) =>
    pods * containers.reduce<number>((total, one) => total + Math.max(0, parseQuantity(read(amount, one)) ?? 0), 0);
  return {
    pods,
    "requests.cpu": sum("requests.cpu"),
    "requests.memory": sum("requests.memory"),
    "limits.cpu": sum("limits.cpu"),
    "limits.memory": sum("limits.memory"),
  };
}

function sumOf(changes: readonly Change[], when: "before" | "after"): Amounts {
  const total = (amount: Amount) => changes.reduce((sum, change) => sum + change[when][amount], 0);
  return Object.fromEntries(allAmounts.map((amount) => [amount, total(amount)])) as unknown as Amounts;
}
