/**
 * The pods that a workload creates, before and after the merge. Containers are matched by name, because a new one may
 * be added before the others.
 */
import type { ObjectRef } from "../../model.ts";
import { field, isRecord } from "../../kit/json.ts";
import { idOf, listIn } from "./fields.ts";
import type { States } from "./states.ts";

/** What is named by a field, before and after; `before` is `undefined` for what is new. */
export interface Pair {
  readonly before: unknown;
  readonly after: unknown;
}

export interface Pods extends Pair {
  /** The containers and initContainers after the merge. */
  readonly containers: readonly Pair[];
}

const template = ["spec", "template"];
/** Where each kind has the template of its pods; a pod is its own. */
const templates: Readonly<Record<string, readonly string[]>> = {
  "/Pod": [],
  "/ReplicationController": template,
  "apps/Deployment": template,
  "apps/StatefulSet": template,
  "apps/DaemonSet": template,
  "apps/ReplicaSet": template,
  "batch/Job": template,
  "batch/CronJob": ["spec", "jobTemplate", "spec", "template"],
};

export function hasPods(ref: ObjectRef): boolean {
  return templates[idOf(ref)] !== undefined;
}

const scalable = /^(?:apps\/(?:Deployment|StatefulSet|ReplicaSet)|\/ReplicationController)$/;

/** Whether it has a number of pods. */
export function isScalable(ref: ObjectRef): boolean {
  return scalable.test(idOf(ref));
}

/** The metadata and the spec of the pods. */
export function templateOf(ref: ObjectRef, state: unknown): unknown {
  const path = templates[idOf(ref)];
  return path === undefined ? undefined : field(state, ...path);
}

export function podsOf(ref: ObjectRef, states: States): Pods {
  const [before, after] = [states.before, states.after].map((state) => field(templateOf(ref, state), "spec"));
  const known = containersIn(before);
  const containers = [...containersIn(after)].map(([name, container]) => ({
    before: known.get(name),
    after: container,
  }));
  return { before, after, containers };
}

type ByName = ReadonlyMap<string, unknown>;

/** Kubernetes requires that their names differ across both lists. */
function containersIn(spec: unknown): ByName {
  const lists = ["initContainers", "containers"];
  return new Map(lists.flatMap((list) => [...byName(listIn(spec, list), list)]));
}

/** By position where there is no name, as in objects of which only changes are known. */
function byName(list: readonly unknown[], prefix: string): ByName {
  const named = list.map((each, i) => {
    const name = field(each, "name");
    return [typeof name === "string" ? name : `${prefix}[${i}]`, each] as const;
  });
  return new Map(named.filter(([, each]) => isRecord(each)));
}

/** Counts instead of names: a text must hold nothing that a user chose. */
export function countOf(count: number, one: string, many: string): string[] {
  if (count === 0) return [];
  return [count === 1 ? `a container ${one}` : `${count} containers ${many}`];
}
