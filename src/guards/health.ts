/** Decides from the objects of its health checks whether a deployment is healthy. Pure. */
import type { CelTask, CelValue } from "../kit/cel.ts";
import type { JsonObject } from "../kit/json.ts";
import {
  type Deployment,
  discriminatorLabel,
  type Health,
  type HealthCheck,
  type ObjectHealth,
  type ObjectQuery,
  type QueriedObjects,
} from "../model.ts";
import { commonReadiness, readinessOf } from "./readiness.ts";

/** Returns a message if the check has nothing to select its objects by. */
export function toQuery(check: HealthCheck, { key, status }: Pick<Deployment, "key" | "status">): ObjectQuery | string {
  const { apiVersion, kind, namespace, name } = check;
  if (name !== undefined) return { apiVersion, kind, name, namespace: namespace ?? key.namespace };
  const discriminator = status.targetKey?.discriminator;
  if (!discriminator)
    return `which ${kind} belong to it is unknown without a discriminator in the kluctl project; name the objects`;
  return { apiVersion, kind, namespace, label: `${discriminatorLabel}=${discriminator}` };
}

/** The expressions to evaluate for an object, if there are any. */
export function taskOf({ current, inProgress, failed }: HealthCheck, object: JsonObject): CelTask | undefined {
  if (current === undefined) return undefined;
  return { expressions: { current, ...(inProgress && { inProgress }), ...(failed && { failed }) }, variables: object };
}

/** In the order of Flux: an object that its controller has not seen yet is in progress, whatever its status says. */
export function judge(object: JsonObject, values: Readonly<Record<string, CelValue>> | undefined): ObjectHealth {
  const named = nameOf(object);
  if (values === undefined) return { object: named, ...readinessOf(object) };
  const common = commonReadiness(object);
  if (common !== undefined) return { object: named, ...common };
  if (values["inProgress"] === true) return { object: named, state: "in-progress", why: "`inProgress` is true" };
  if (values["failed"] === true) return { object: named, state: "failed", why: "`failed` is true" };
  if (values["current"] === true) return { object: named, state: "current" };
  const why = values["current"] === false ? "is not true" : `cannot be evaluated: ${String(values["current"])}`;
  return { object: named, state: "in-progress", why: `\`current\` ${why}` };
}

/** The health of objects that could not be read, or of one that does not exist; empty if there is nothing to say. */
export function judgeMissing(query: ObjectQuery, found: QueriedObjects | undefined): ObjectHealth[] {
  const { kind, namespace, name } = query;
  const object = [kind, [namespace, name].filter((part) => part !== undefined).join("/")].join(" ").trim();
  if (found?.problem !== undefined) {
    const state = found.isPermanent ? "failed" : "in-progress";
    return [{ object, state, why: `it cannot be read: ${found.problem}` }];
  }
  const isMissing = name !== undefined && found?.objects.length === 0;
  return isMissing ? [{ object, state: "in-progress", why: "it does not exist" }] : [];
}

const shortestPauseMs = 1_000;
const longestPauseMs = 5_000;

/**
 * Sums up the health of all objects. `waitedMs`: how long the deployment has been waiting; one object that has failed
 * ends the wait.
 */
export function sumUp(all: readonly ObjectHealth[], waitedMs: number, timeoutMs: number): Health {
  const failed = all.filter(({ state }) => state === "failed");
  const pending = all.filter(({ state }) => state === "in-progress");
  if (failed.length > 0) return { kind: "unhealthy", message: `Health check failed: ${listed(failed)}.` };
  if (pending.length === 0) return { kind: "healthy" };
  const leftMs = timeoutMs - waitedMs;
  if (leftMs <= 0) return { kind: "unhealthy", message: `Health check timed out: ${listed(pending)}.` };
  // Names only: a message that changes with every pod would be written, and reported, each time.
  const [first, ...others] = pending;
  const what = others.length === 0 ? `${first?.object} is` : `${first?.object} and ${others.length} more are`;
  const againMs = Math.min(Math.max(waitedMs / 10, shortestPauseMs), longestPauseMs, leftMs);
  return { kind: "waiting", message: `Waiting until ${what} healthy.`, againMs };
}

const mostListed = 3;
/** That of Kubernetes. */
const longestName = 253;

function listed(objects: readonly ObjectHealth[]): string {
  const shown = objects.slice(0, mostListed).map(({ object, why }) => `${object} (${why ?? "not healthy"})`);
  const more = objects.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** A cluster may be under anybody's control, and these names are shown: everything that is in no name is replaced. */
function nameOf({ kind, metadata }: JsonObject): string {
  const { namespace, name } = (metadata ?? {}) as { readonly namespace?: unknown; readonly name?: unknown };
  const shown = (part: unknown) =>
    String(part)
      .slice(0, longestName)
      .replace(/[^\w.:-]/g, "?");
  return `${shown(kind)} ${typeof namespace === "string" ? `${shown(namespace)}/` : ""}${shown(name)}`;
}
