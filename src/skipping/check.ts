/** Decides whether a check can be skipped: whether everything is as it was when the last one found nothing. */
import {
  annotation,
  type Deployment,
  followsGit,
  type Freshness,
  type GitDeployment,
  isMalformed,
  keyText,
  type MalformedDeployment,
} from "../model.ts";
import type { AppliedObjects, Clock, Deployments } from "../ports.ts";
import { findSharing } from "../guards/discriminators.ts";
import { decide } from "../reconcile/decide.ts";
import { checkedWithinMs } from "../reconcile/freshness.ts";
import type { Head } from "../reconcile/parts.ts";
import { isReconciling, readyCondition } from "../reconcile/status/conditions.ts";
import { isAsked } from "../requests/requests.ts";
import type { CheckReason, Evidence, Known } from "./evidence.ts";
import { whyConcerned } from "./moves.ts";
import { compareObjects } from "./objects.ts";
import type { Queries } from "./queries.ts";
import { fullIntervalOf } from "./settings.ts";

export type SkipDecision =
  /** `commit`: the current commit of its source, if it differs from the observed one. */
  | { readonly kind: "skipped"; readonly commit?: string | undefined }
  /** The status was changed meanwhile: the watch decides what to do next. */
  | { readonly kind: "later" }
  | { readonly kind: "check"; readonly reason: CheckReason; readonly why: string };

/** What a check knows about the deployment's source. */
export interface SourceCheck extends Freshness {
  /** Its current commit; absent: git is asked, unless an earlier answer is recent enough. */
  readonly to?: Head | undefined;
}

export interface CheckDeps {
  readonly remembered: ReadonlyMap<string, Known>;
  readonly queries: Queries;
  readonly deployments: Pick<Deployments, "all">;
  readonly applied: Pick<AppliedObjects, "find">;
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
}

/** The answer's maximum age if another server has updated the observed commit, perhaps from a newer answer. */
const freshMs = 5_000;

export function createCheck({ remembered, queries, deployments, applied, fullIntervalMs, clock }: CheckDeps) {
  async function check(
    deployment: Deployment | MalformedDeployment,
    { to: moved, since, maxAgeMs }: SourceCheck,
    signal: AbortSignal,
  ): Promise<SkipDecision> {
    const now = clock.now();
    const known = remembered.get(keyText(deployment.key));
    if (known === undefined || known.uid !== deployment.uid)
      return checkBecause("not-seen", "not reconciled by this server yet");
    if (isMalformed(deployment) || isReconciling(deployment.status) || isAsked(deployment)) {
      return checkBecause("requested", "it was requested, or is in progress");
    }
    const { status, spec, generation } = deployment;
    if (readyCondition(status)?.status !== "True") return checkBecause("requested", "it is not ready");
    if (deployment.deletionTimestamp !== undefined || deployment.deployRequest !== undefined)
      return checkBecause("requested", "it is requested");
    if (known.generation !== generation || status.observedGeneration !== generation)
      return checkBecause("requested", "it changed");
    const { evidence } = known;
    if (evidence.reason !== undefined) return checkBecause(evidence.reason, evidence.why);

    const fullMs = fullIntervalOf(deployment, fullIntervalMs());
    if (fullMs === undefined) return checkBecause("settings", `${annotation.fullInterval} is not a duration, e.g. 1h`);
    if (now - evidence.at >= fullMs) return checkBecause("due", "a full reconciliation is due");
    const same =
      status.lastDeployResult?.id === known.deployResultId &&
      status.lastObjectsHash === known.objectsHash &&
      // If another server found that a move does not affect it, this server can find the same.
      (evidence.isSelfContained || status.observedCommit === (evidence.commit || undefined)) &&
      status.lastPrepareError === undefined &&
      status.lastDriftDetectionResultMessage === "no drift";
    if (!same) return checkBecause("not-seen", "another server or a user has reconciled it since");
    const decision = decide({ spec, status, generation, now, retrying: false }, known.objectsHash);
    if (decision.deploy !== undefined || decision.waitsForApproval)
      return checkBecause("due", decision.deploy ?? "approval");
    if (decision.validate && spec.validateIntervalMs !== undefined) return checkBecause("due", "a validation is due");
    if (findSharing(deployment, status.targetKey, deployments.all()).length > 0) {
      return checkBecause("settings", "another deployment has the same discriminator");
    }

    const { objects, unknown } = applied.find(known.discriminator, known);
    if (objects === undefined) return checkBecause("watch", unknown);
    const difference = compareObjects(known.objects, objects);
    if (difference.kind === "status") {
      const follows = spec.validate && spec.validateIntervalMs === undefined;
      if (follows)
        return checkBecause("objects", `the status of ${difference.id} changed, and validation depends on it`);
    } else if (difference.kind !== "same") return checkBecause("objects", `${difference.id}: ${difference.kind}`);
    if (decision.validate && !evidence.validated) return checkBecause("due", "a validation is due");

    if ((await queries.hashSecrets(deployment)) !== evidence.secrets)
      return checkBecause("secrets", "a Secret that it references changed");
    if (moved !== undefined && moved.at < evidence.commitAt) return { kind: "later" };
    let commit: string | undefined = evidence.commit;
    const usualMs = maxAgeMs ?? checkedWithinMs(spec);
    if (followsGit(deployment)) {
      const isOurs = status.observedCommit === evidence.commit;
      const freshness = { since, maxAgeMs: isOurs ? usualMs : Math.min(usualMs, freshMs) };
      commit = moved?.commit ?? (await queries.sourceCommit(deployment, freshness, signal));
      const why = commit === evidence.commit ? undefined : await whyMoveMatters(deployment, evidence, commit, signal);
      if (why !== undefined) return checkBecause("refs", why);
    }
    const includes = await queries.commitsOf(deployment, known.includes, { maxAgeMs: usualMs }, signal);
    for (const [place, commit] of evidence.heads) {
      if (includes.get(place) !== commit) return checkBecause("refs", `${place} has moved`);
    }
    if ((await queries.clusterFacts(maxAgeMs)) !== evidence.cluster)
      return checkBecause("cluster", "the cluster's version, kinds or schemas changed");
    if ((await queries.kluctl(maxAgeMs)) !== evidence.kluctl)
      return checkBecause("kluctl", "the kluctl binary changed");
    // What is remembered may have changed during these queries.
    if (remembered.get(keyText(deployment.key)) !== known)
      return checkBecause("not-seen", "it was reconciled meanwhile");
    return { kind: "skipped", ...(commit && commit !== status.observedCommit && { commit }) };
  }

  async function whyMoveMatters(
    deployment: GitDeployment,
    { commit: from, isSelfContained }: Evidence,
    to: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (to === undefined || !isSelfContained) return `the source is at ${to ?? "no commit"}`;
    const why = whyConcerned(await queries.changes(deployment, from, to, signal), deployment);
    return why && `the source is at ${to}: ${why}`;
  }

  return check;
}

export function checkBecause(reason: CheckReason, why: string): SkipDecision {
  return { kind: "check", reason, why };
}
