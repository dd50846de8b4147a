/** Finds a newer commit than the one that a deployment has, and what it waits for. Pure. */
import { commitOf, refName } from "../model/git-ref.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import { deployedCommitOf } from "../model/last-deploy.ts";
import { type AnyDeployment, type Deployment, isMalformed, keyText, type KnownHeads } from "../model.ts";
import { dependencyReason } from "../guards/depends-on.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { isAwaitingHealth, isReconciling, pendingCommitOf, readyCondition } from "../reconcile/status/conditions.ts";
import { isBefore } from "./trace.ts";

export interface NewerCommit {
  readonly commit: string;
  /** What it waits for. */
  readonly why: string;
  /** When it is tried again, in epoch milliseconds, if that is known. */
  readonly nextAt?: number | undefined;
}

export interface NewerCommitFacts {
  /** The last answer of git to the deployment's login. */
  readonly heads?: KnownHeads | undefined;
  /** All stored deliveries. */
  readonly deliveries: readonly DeliveryRecord[];
  /** The deployment's job in the queue. */
  readonly job?: QueuedJob | undefined;
  /** The next retry after a failure. */
  readonly retryAt?: number | undefined;
  readonly now: number;
}

interface QueuedJob {
  readonly state: "active" | "waiting" | "delayed";
  readonly why?: string | undefined;
  readonly nextAt?: number | undefined;
}

/**
 * `undefined` if there is none, as far as is known, or nothing shows that the deployment will take it: most pushes to a
 * monorepo do not concern it.
 */
export function findNewerCommit(deployment: AnyDeployment, facts: NewerCommitFacts): NewerCommit | undefined {
  if (isMalformed(deployment) || deployment.deletionTimestamp !== undefined) return undefined;
  const { spec, status } = deployment;
  if (spec.suspend) {
    const pending = pendingCommitOf(deployment);
    return pending === undefined ? undefined : { commit: pending, why: "suspended" };
  }
  const head = findHead(deployment, facts);
  if (head !== undefined && head !== status.observedCommit) {
    const wait = findWait(deployment, facts);
    if (wait !== undefined) return { commit: head, ...wait };
  }
  const { observedCommit: commit } = status;
  const deployed = deployedCommitOf(status.lastDeployResult);
  const isApproved = !changeWaits(spec, status) || isReconciling(status);
  return isApproved || !commit || deployed === undefined || deployed === commit
    ? undefined
    : { commit, why: "waiting for approval" };
}

/** The newest commit of its ref: by the last push that a webhook reported, unless git was asked since. */
function findHead(deployment: Deployment, { heads, deliveries, now }: NewerCommitFacts): string | undefined {
  const { source } = deployment.spec;
  if (source.kind !== "git" || source.ref.commit !== undefined) return undefined;
  const [push] = deliveries.filter((one) => isPushTo(one, deployment)).toSorted((a, b) => b.at - a.at);
  if (heads !== undefined && heads.askedAt >= (push?.at ?? 0)) return commitOf(source.ref, heads.heads);
  return push === undefined || isBefore(push, deployment.status, { all: deliveries, now }) ? undefined : push.commit;
}

/** Whether the push was to what the deployment follows now, and affected it. */
function isPushTo({ event, repoName, ref, deployments, including }: DeliveryRecord, deployment: Deployment): boolean {
  const { key, repo, spec } = deployment;
  const name = keyText(key);
  const followed = spec.source.kind === "git" ? refName(spec.source.ref, {}) : undefined;
  const isAffected = deployments.includes(name) && including?.includes(name) !== true;
  const isRepo = repoName !== undefined && repo?.toLowerCase().endsWith(`/${repoName.toLowerCase()}`) === true;
  return event === "push" && isAffected && isRepo && (followed === undefined || ref === followed);
}

const retrying = "the last reconciliation failed";

/** What the next reconciliation waits for, the most specific reason first. */
function findWait(
  { status }: Deployment,
  { job, retryAt, now }: NewerCommitFacts,
): Omit<NewerCommit, "commit"> | undefined {
  const ready = readyCondition(status);
  if (job?.state === "active") return { why: "in progress" };
  if (job?.state === "waiting") return { why: "queued" };
  // The wait for health holds nothing up: a newer commit would have a job of its own.
  if (job?.state === "delayed" && !isAwaitingHealth(status))
    return { why: inOneLine(job.why ?? retrying), nextAt: job.nextAt };
  if (Object.values<string>(dependencyReason).includes(ready?.reason ?? "")) return { why: inOneLine(ready!.message) };
  if (ready?.status !== "False" || retryAt === undefined) return undefined;
  return { why: retrying, ...(retryAt > now && { nextAt: retryAt }) };
}
