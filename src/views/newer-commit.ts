/** Finds newer commits than those that deployments have, and what they wait for. Pure. */
import { commitOf, refName } from "../model/git-ref.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import { deployedCommitOf } from "../model/last-deploy.ts";
import { type AnyDeployment, type Deployment, isMalformed, keyText, type KnownHeads } from "../model.ts";
import { dependencyReason } from "../guards/depends-on.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { isAwaitingHealth, isReconciling, pendingCommitOf, readyCondition } from "../reconcile/status/conditions.ts";
import { isBefore, isReconciledSince } from "./trace.ts";

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
  /** Those among them that may concern the deployment; absent: any. */
  readonly pushes?: readonly DeliveryRecord[] | undefined;
  /** The deployment's job in the queue. */
  readonly job?: QueuedJob | undefined;
  /** The next retry after a failure. */
  readonly retryAt?: number | undefined;
  readonly now: number;
}

/** Of several deployments. */
export interface NewerCommitsFacts extends Pick<NewerCommitFacts, "deliveries" | "now"> {
  readonly jobs: ReadonlyMap<string, QueuedJob>;
  readonly headsOf?: ((deployment: Deployment) => KnownHeads | undefined) | undefined;
  readonly retryAtOf: (deployment: Deployment) => number | undefined;
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
  // The search is through all stored pushes, and most deployments of a list wait for nothing.
  const head = mayHaveNewerCommit(deployment, facts.job) ? findHead(deployment, facts) : undefined;
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

/** By `namespace/name`, of those that have one. */
export function findNewerCommits(
  deployments: readonly AnyDeployment[],
  { jobs, headsOf, retryAtOf, deliveries, now }: NewerCommitsFacts,
): ReadonlyMap<string, NewerCommit> {
  // Each delivery is searched once, not once for each deployment.
  const pushes = deliveries.filter(({ event }) => event === "push");
  const cut = pushes.filter(namesNotAll);
  const naming = new Map<string, DeliveryRecord[]>();
  for (const push of pushes) {
    if (namesNotAll(push)) continue;
    for (const name of push.deployments) naming.set(name, [...(naming.get(name) ?? []), push]);
  }
  const found = new Map<string, NewerCommit>();
  for (const deployment of deployments) {
    if (isMalformed(deployment)) continue;
    const name = keyText(deployment.key);
    const facts = { job: jobs.get(name), heads: headsOf?.(deployment), retryAt: retryAtOf(deployment) };
    const own = [...(naming.get(name) ?? []), ...cut];
    const newer = findNewerCommit(deployment, { ...facts, deliveries, pushes: own, now });
    if (newer !== undefined) found.set(name, newer);
  }
  return found;
}

/** Whether more than its status is needed to know if a newer commit waits. */
export function mayHaveNewerCommit(deployment: AnyDeployment, job: QueuedJob | undefined): boolean {
  if (isMalformed(deployment) || deployment.spec.suspend) return false;
  return job !== undefined || readyCondition(deployment.status)?.status !== "True";
}

/** The newest commit of its ref: by the last push that a webhook reported, unless git was asked since. */
function findHead(
  deployment: Deployment,
  { heads, deliveries, pushes = deliveries, now }: NewerCommitFacts,
): string | undefined {
  const { source } = deployment.spec;
  if (source.kind !== "git" || source.ref.commit !== undefined) return undefined;
  const [push] = pushes.filter((one) => isPushTo(one, deployment)).toSorted((a, b) => b.at - a.at);
  const { status } = deployment;
  if (heads !== undefined && heads.askedAt >= (push?.at ?? 0))
    return isReconciledSince(status, heads.askedAt, now) ? undefined : commitOf(source.ref, heads.heads);
  return push === undefined || isBefore(push, status, { all: deliveries, now }) ? undefined : push.commit;
}

/** Whether the push was to what the deployment follows now, and affected it. */
function isPushTo(push: DeliveryRecord, { key, repo, spec }: Deployment): boolean {
  const { event, repoName, ref, deployments, including } = push;
  const followed = spec.source.kind === "git" ? refName(spec.source.ref, {}) : undefined;
  if (event !== "push" || repo === undefined || (followed !== undefined && ref !== followed)) return false;
  const name = keyText(key);
  if (including?.includes(name)) return false;
  if (deployments.includes(name))
    return repoName !== undefined && repo.toLowerCase().endsWith(`/${repoName.toLowerCase()}`);
  // A repository on another host may have the same name, and belong to somebody else.
  return (
    namesNotAll(push) &&
    push.repos?.includes(repo) === true &&
    !push.ignored.some(({ deployment }) => deployment === name)
  );
}

/** The record of a push to many deployments names only some of them. */
function namesNotAll({ matched, deployments }: DeliveryRecord): boolean {
  return matched > deployments.length;
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
