/** Checks the health of what is deployed, if the deployment has health checks. One look, no wait: see awaiting.ts. */
import { healthChecksOf } from "../../guards/health-checks.ts";
import { judge, judgeMissing, sumUp, taskOf, toQuery } from "../../guards/health.ts";
import type { JsonObject } from "../../kit/json.ts";
import { evaluateCel, isTooExpensive } from "../../kit/cel.ts";
import type {
  DeploymentStatus,
  Health,
  HealthCheck,
  Identity,
  ObjectHealth,
  ObjectQuery,
  QueriedObjects,
} from "../../model.ts";
import { redactText } from "../../redact/redact-text.ts";
import { isAwaitingHealth, readyCondition } from "../status/conditions.ts";
import type { Loop, LoopDeps } from "../work.ts";

export interface HealthLook extends Pick<Loop, "deployment" | "signal"> {
  readonly deps: Pick<LoopDeps, "objects" | "clock">;
  /** With what this reconciliation has deployed. */
  readonly status: DeploymentStatus;
  readonly identity: Identity;
}

/** `undefined`: the deployment has no health checks. Objects are read with the deployment's own permissions. */
export async function checkHealth(look: HealthLook): Promise<Health | undefined> {
  const parsed = healthChecksOf(look.deployment);
  if (parsed === undefined) return undefined;
  if ("problem" in parsed) return { kind: "invalid", message: `Invalid ${parsed.problem}.` };
  const now = look.deps.clock.now();
  const found = await findHealth(parsed.checks, look);
  const health =
    typeof found === "string" ? unhealthy(found) : sumUp(found, now - waitsSince(look, now), parsed.timeoutMs);
  if (health.kind === "healthy") return health;
  return { ...health, message: await redactText(health.message, look.identity.secrets) };
}

/** A message if nothing can be found out until a person changes something. */
async function findHealth(checks: readonly HealthCheck[], look: HealthLook): Promise<ObjectHealth[] | string> {
  const { deployment, deps, identity, status, signal } = look;
  const queries: ObjectQuery[] = [];
  for (const check of checks) {
    const query = toQuery(check, { key: deployment.key, status });
    if (typeof query === "string") return query;
    queries.push(query);
  }
  const found = await deps.objects.read(queries, identity, signal);
  const pairs = checks.flatMap((check, i) => objectsOf(found[i]).map((object) => ({ check, object })));
  try {
    const tasks = pairs.map(({ check, object }) => taskOf(check, object));
    const values = tasks.some((task) => task !== undefined)
      ? await evaluateCel(
          tasks.filter((task) => task !== undefined),
          signal,
        )
      : [];
    const known = pairs.map(({ object }, i) => judge(object, tasks[i] && values.shift()));
    return [...queries.flatMap((query, i) => judgeMissing(query, found[i])), ...known];
  } catch (error) {
    if (!isTooExpensive(error)) throw error;
    return `${error.message}; simplify the expressions in its annotation`;
  }
}

function objectsOf(found: QueriedObjects | undefined): readonly JsonObject[] {
  return found === undefined || found.problem !== undefined ? [] : found.objects;
}

function unhealthy(why: string): Health {
  return { kind: "unhealthy", message: `Health check failed: ${why}.` };
}

/**
 * From when the time-out counts: the last deploy or, if objects stopped being healthy since, when that was found.
 * Derived from the status, so that the wait goes on where it was after a restart.
 */
function waitsSince({ deployment, status }: HealthLook, now: number): number {
  const ready = readyCondition(deployment.status);
  const deployedAt = Date.parse(status.lastDeployResult?.endTime ?? "");
  const found = isAwaitingHealth(deployment.status) ? Date.parse(ready?.lastTransitionTime ?? "") : NaN;
  const times = [deployedAt, found, ready?.status === "True" ? now : NaN].filter((time) => !Number.isNaN(time));
  // The clock of another server may have been ahead.
  return Math.min(now, Math.max(0, ...times));
}
