/** Parses a deployment's dependencies, and decides whether they are ready. Pure. */
import {
  annotation,
  isMalformed,
  keyText,
  type Deployment,
  type DeploymentIdentity,
  type Key,
  type MalformedDeployment,
} from "../model.ts";
import { readyCondition, type Verdict } from "../reconcile/status/conditions.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { whyNotCel } from "../kit/cel.ts";

/** Reasons of the Ready condition of a blocked deployment. */
export const dependencyReason = {
  /** Resolves when the dependency becomes ready, by itself or because someone fixes it. */
  notReady: "DependencyNotReady",
  /** Can never become ready: a cycle, or an invalid name. */
  impossible: "DependencyImpossible",
} as const;

export interface Dependencies {
  readonly keys: readonly Key[];
  /** A CEL expression over `dep` and `self` that decides whether a dependency is ready, instead of its Ready condition. */
  readonly readyExpr?: string | undefined;
  /** Why the annotation is invalid, if it is. */
  readonly problem?: string | undefined;
}

/** A limit, because every dependency is read again before each reconciliation. */
const mostDependencies = 50;
const objectName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

/** Parses the annotation; a plain `name` is in the deployment's own namespace. */
export function dependenciesOf({ key, annotations }: Pick<DeploymentIdentity, "key" | "annotations">): Dependencies {
  const text = annotations[annotation.dependsOn] ?? "";
  const names = text
    .split(/[,\n]/)
    .map((name) => name.trim())
    .filter((name) => name !== "");
  const distinct = [...new Set(names.map((name) => (name.includes("/") ? name : `${key.namespace}/${name}`)))];
  const wrong = distinct.find((name) => !/^[^/]+\/[^/]+$/.test(name) || !name.split("/").every(isObjectName));
  if (wrong !== undefined) {
    const example = 'separate names by commas, e.g. "database, platform/ingress"';
    return { keys: [], problem: `annotation ${annotation.dependsOn}: ${quote(wrong)} is not a name; ${example}` };
  }
  if (distinct.length > mostDependencies) {
    return { keys: [], problem: `annotation ${annotation.dependsOn}: lists more than ${mostDependencies} deployments` };
  }
  const readyExpr = annotations[annotation.readyExpr];
  if (readyExpr === undefined || distinct.length === 0) return { keys: distinct.map(toKey) };
  const why = whyNotCel(readyExpr);
  return why === undefined
    ? { keys: distinct.map(toKey), readyExpr }
    : { keys: [], problem: `annotation ${annotation.readyExpr}: it is not a CEL expression: ${why}` };
}

/** The shortest path from a deployment back to itself, both ends included. */
export function findCycle(start: Key, next: (key: Key) => readonly Key[]): readonly Key[] | undefined {
  const home = keyText(start);
  const seen = new Set<string>();
  let paths: (readonly Key[])[] = [[start]];
  while (paths.length > 0) {
    const longer: (readonly Key[])[] = [];
    for (const path of paths) {
      for (const key of next(path.at(-1) ?? start)) {
        if (keyText(key) === home) return [...path, key];
        if (seen.has(keyText(key))) continue;
        seen.add(keyText(key));
        longer.push([...path, key]);
      }
    }
    paths = longer;
  }
  return undefined;
}

/**
 * Why a dependency is not ready; `undefined` if it is: reconciled at its current generation, and Ready.
 *
 * @param commit the commit that the dependency must have reached as well. Only known if both follow the same commit of
 * one repository: changes pushed together are deployed in order.
 */
export function whyNotReady(
  dependency: Deployment | MalformedDeployment | undefined,
  commit: string | undefined,
): string | undefined {
  const gone = whyGone(dependency);
  if (dependency === undefined || gone !== undefined) return gone;
  const { status, generation } = dependency;
  const ready = readyCondition(status);
  if (isMalformed(dependency)) return "its spec is invalid";
  if (ready === undefined) return "it has not been reconciled yet";
  if (status.observedGeneration !== generation && ready.reason !== dependencyReason.notReady) {
    return status.observedGeneration === undefined
      ? "it is being reconciled for the first time"
      : "its spec changed and has not been reconciled yet";
  }
  if (ready.status !== "True") return shortLine(ready.message) || `Ready is ${ready.status}`;
  if (commit === undefined || dependency.spec.suspend) return undefined;
  if (status.observedCommit !== commit) return `it is not at commit ${commit.slice(0, 7)} yet`;
  return changeWaits(dependency.spec, status) ? "its change is waiting for approval" : undefined;
}

/** Why there is no dependency that could be ready; `undefined` if there is one. */
export function whyGone(dependency: Deployment | MalformedDeployment | undefined): string | undefined {
  if (dependency === undefined) return "there is no such KluctlDeployment";
  return dependency.deletionTimestamp === undefined ? undefined : "it is being deleted";
}

export function waitingVerdict(waitsFor: readonly { readonly key: Key; readonly why: string }[]): Verdict {
  const named = waitsFor.map(({ key, why }) => `${keyText(key)} (${why})`).join(", ");
  return { status: "Unknown", reason: dependencyReason.notReady, message: `waiting for ${named}` };
}

export function impossibleVerdict(message: string): Verdict {
  return { status: "False", reason: dependencyReason.impossible, message };
}

export function cycleMessage(cycle: readonly Key[]): string {
  return `depends on itself: ${cycle.map(keyText).join(" → ")}. Remove one of these dependencies, or none of them is ever deployed`;
}

/** Whether the deployment is blocked by a dependency, according to its status. */
export function isHeldBack({ status }: Pick<DeploymentIdentity, "status">): boolean {
  const { reason } = readyCondition(status) ?? {};
  return reason === dependencyReason.notReady || reason === dependencyReason.impossible;
}

/** Whether it waits for a dependency that may become ready at any moment, according to its status. */
export function isWaiting({ status }: Pick<DeploymentIdentity, "status">): boolean {
  return readyCondition(status)?.reason === dependencyReason.notReady;
}

function isObjectName(name: string): boolean {
  return name.length <= 253 && objectName.test(name);
}

function toKey(text: string): Key {
  const [namespace = "", name = ""] = text.split("/");
  return { namespace, name };
}

function shortLine(text: string): string {
  const line = text.trim().split(/\r?\n/, 1)[0] ?? "";
  return line.length <= 200 ? line : `${line.slice(0, 200)}…`;
}

function quote(text: string): string {
  return JSON.stringify(text.length <= 80 ? text : `${text.slice(0, 80)}…`);
}
