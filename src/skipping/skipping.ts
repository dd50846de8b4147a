/**
 * Skips checks when nothing can have changed: after a reconciliation that found neither a change nor drift, interval
 * checks are skipped while everything that went into it is provably unchanged. Anything that cannot be proven is a
 * reason to check, and then a full reconciliation runs.
 */
import type { Logger } from "../log.ts";
import {
  annotation,
  type AppliedKind,
  type Deployment,
  followsGit,
  type Freshness,
  type GitDeployment,
  isMalformed,
  type Key,
  keyText,
  type MalformedDeployment,
} from "../model.ts";
import type { AppliedObjects, Clock, Deployments } from "../ports.ts";
import { isReconciling, readyCondition } from "../reconcile/status/conditions.ts";
import { decide } from "../reconcile/decide.ts";
import { findSharing } from "../guards/discriminators.ts";
import type { LoopFindings } from "../reconcile/loop.ts";
import type { Head } from "../reconcile/parts.ts";
import { isAsked } from "../requests/requests.ts";
import { checkedWithinMs } from "../reconcile/freshness.ts";
import { targetOf } from "../reconcile/keys.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { rfc3339 } from "../kit/time.ts";
import { type Cluster, type LastSeen, whyCompare, whyUnlikely } from "./comparing.ts";
import { createQueries, type QueriesDeps, mostRemembered, placeText } from "./queries.ts";
import { type GitPlace, inputsOf, waitsForItems } from "../model/project-inputs.ts";
import { compareObjects, seenObjects } from "./objects.ts";
import { whyConcerned } from "./moves.ts";
import { wasDryRun } from "../model/last-deploy.ts";
import { fullIntervalOf, whySettings } from "./settings.ts";
import type { SkipAudit } from "./skip-audit.ts";

/** Why a check is not skipped; a label of the metric. */
export type CheckReason =
  | "not-seen" // this server has not reconciled it yet, or its state was changed by others since
  | "requested" // it was requested, or it is not ready
  | "due" // a full reconciliation, a deploy or a validation
  | "settings" // the deployment's settings make evidence impossible
  | "project" // the project has inputs that may change anywhere, or renders differently each time
  | "objects" // an object that it applied has changed
  | "watch" // its objects are not watched
  | "secrets"
  | "refs"
  | "cluster" // another Kubernetes version, other kinds or another schema
  | "kluctl"; // another version or another binary

export type SkipDecision =
  /** `commit`: the current commit of its source, if it differs from the observed one. */
  | { readonly kind: "skipped"; readonly commit?: string | undefined }
  /** The status was changed meanwhile: the watch decides what to do next. */
  | { readonly kind: "later" }
  | { readonly kind: "check"; readonly reason: CheckReason; readonly why: string };

export interface SkippingDeps extends QueriesDeps {
  readonly deployments: Pick<Deployments, "all" | "moveTimes">;
  readonly applied: AppliedObjects;
  /** Whether all deployments of this server are dry runs. Absent: they are not. */
  readonly dryRun?: (() => boolean) | undefined;
  /** The longest time between two full reconciliations, unless the deployment sets its own. */
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: { intervalCheck(reason: CheckReason | undefined): void } | undefined;
  /** Absent: no skip is audited. */
  readonly audit?: Pick<SkipAudit, "note"> | undefined;
}

/** The inputs right before kluctl ran. */
export interface InputsBefore {
  readonly at: number;
  readonly secrets: string | undefined;
  readonly cluster: string | undefined;
  readonly kluctl: string | undefined;
  /** The commits of the places that the project is known to include. */
  readonly heads: ReadonlyMap<string, string> | undefined;
}

/** The result of one reconciliation. */
export interface Found extends LoopFindings {
  readonly deployment: Deployment;
  readonly signal: AbortSignal;
}

/** What this server remembers about a deployment it has reconciled. */
export interface Known extends LastSeen {
  readonly discriminator: string;
  readonly impersonate: string | undefined;
  readonly kinds: readonly AppliedKind[];
  readonly includes: readonly GitPlace[];
  readonly evidence: Evidence | { readonly reason: CheckReason; readonly why: string };
}

interface Evidence {
  readonly reason?: undefined;
  readonly at: number;
  readonly commit: string;
  /** When the remote was queried for this commit, or later. */
  readonly commitAt: number;
  readonly secrets: string;
  readonly cluster: string;
  readonly kluctl: string;
  readonly heads: ReadonlyMap<string, string>;
  /**
   * It reads nothing of its source outside its directory. False at the root of a repository and for sources other than
   * git.
   */
  readonly isSelfContained: boolean;
  /** The result of the last validation follows from the objects' recorded versions. */
  readonly validated: boolean;
}

/** What a check knows about the deployment's source. */
export interface SourceCheck extends Freshness {
  /** Its current commit; absent: git is asked, unless an earlier answer is recent enough. */
  readonly to?: Head | undefined;
}

export interface Skipping {
  /** Marks the deployment as busy: changes of its objects meanwhile are attributed to this work. */
  during<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /** Collects the evidence right before kluctl runs. */
  begin(deployment: Deployment, signal: AbortSignal): Promise<InputsBefore>;
  /** Without `before`, the result is no evidence. */
  learn(before: InputsBefore | undefined, found: Found): Promise<void>;
  /**
   * Why this commit has to be compared with the cluster before it is deployed; `undefined`: the deploy alone is enough.
   */
  whyCompare(deployment: Deployment, commit: string, signal: AbortSignal): Promise<string | undefined>;
  isBusy(key: Key): boolean;
  known(key: Key): Known | undefined;
  forget(key: Key): void;
  /**
   * Skips the check due by an interval, or by a move of its source, if nothing can have changed. If it does, it updates
   * the times in the status, and the commit.
   */
  skipCheck(deployment: Deployment | MalformedDeployment, to?: Head): Promise<SkipDecision["kind"]>;
  /** The same for a queued job. If this server queued it, it has already found a reason to check. */
  skipJob(deployment: Deployment | MalformedDeployment, check: SourceCheck): Promise<SkipDecision["kind"]>;
  /** Calls back when the work on a deployment ends. */
  onEnd(callback: (key: Key) => void): void;
}

const requestMs = 20_000;
/** The answer's maximum age if another server has updated the observed commit, perhaps from a newer answer. */
const freshMs = 5_000;
/** For this long, the job queued because of a reason to check need not collect the evidence again. */
const notSkippedMs = 60_000;

export function createSkipping(deps: SkippingDeps): Skipping {
  const { deployments, applied, clock, log, observe } = deps;
  const queries = createQueries(deps);
  const remembered = new Map<string, Known>();
  const busy = new Map<string, number>();
  const recentlyChecked = createBoundedMap<true>({
    entries: mostRemembered,
    maxAgeMs: notSkippedMs,
    now: () => clock.now(),
  });
  const callbacks: ((key: Key) => void)[] = [];

  async function collectEvidence(
    before: InputsBefore | undefined,
    found: Found,
    known: Omit<Known, "evidence">,
  ): Promise<Known["evidence"]> {
    const { deployment, rendered, identity, clean, deployed, checkout, validated } = found;
    const settings = whySettings(deployment, identity);
    if (settings !== undefined) return { reason: "settings", why: settings };
    const inputs = inputsOf(rendered.document);
    if (inputs.reason !== undefined) return { reason: "project", why: inputs.reason };
    if (deployed || !clean)
      return { reason: "requested", why: "the last reconciliation changed or reported something" };
    if (before === undefined) return { reason: "requested", why: "the last reconciliation was requested" };
    if (!known.complete) return { reason: "objects", why: "kluctl did not report all of its objects" };
    if (before.secrets === undefined) return { reason: "secrets", why: "could not read its Secrets" };
    if (before.cluster === undefined) return { reason: "cluster", why: "could not read the cluster's API resources" };
    if (before.kluctl === undefined) return { reason: "kluctl", why: "kluctl is not available" };
    const places = inputs.includes.map(placeText);
    if (before.heads === undefined || places.some((place) => !before.heads?.has(place))) {
      return { reason: "refs", why: "the project's includes were unknown before it was rendered" };
    }
    const commits = new Map(places.map((place) => [place, before.heads?.get(place) ?? ""]));
    const { unsteady, isSelfContained } = await queries.findUnsteady(found, commits, inputs);
    if (unsteady !== undefined) return { reason: "project", why: unsteady };
    return {
      at: before.at,
      commit: checkout.commit,
      commitAt: before.at,
      secrets: before.secrets,
      cluster: before.cluster,
      kluctl: before.kluctl,
      heads: commits,
      isSelfContained,
      validated,
    };
  }

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

    const fullMs = fullIntervalOf(deployment, deps.fullIntervalMs());
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

    const { objects, unknown } = inCluster(known);
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

  const inCluster = (known: Known): Cluster => applied.find(known.discriminator, known);

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

  /** Replaces a reconciliation by one small status write; writes nothing if the status was changed meanwhile. */
  async function moveTimes(deployment: Deployment, commit: string | undefined): Promise<boolean> {
    const { spec, status } = deployment;
    const key = keyText(deployment.key);
    const time = rfc3339(clock.now());
    const times = { startTime: time, endTime: time };
    const known = remembered.get(key);
    if (known === undefined || known.evidence.reason !== undefined) return false;
    // While its objects are unchanged, a validation finds the same as the last one.
    const validates = spec.validate && known.evidence.validated && spec.validateIntervalMs === undefined;
    const written = await deployments.moveTimes(deployment, {
      lastDriftDetectionResult: times,
      ...(validates && status.lastValidateResult !== undefined && { lastValidateResult: times }),
      ...(commit !== undefined && { observedCommit: commit }),
    });
    if (written && commit !== undefined && remembered.get(key) === known)
      remembered.set(key, { ...known, evidence: { ...known.evidence, commit, commitAt: clock.now() } });
    return written;
  }

  /** Passes the skip to the audit, with what was assumed, so that it can be verified. */
  function noteSkip(deployment: Deployment, movedTo: string | undefined): void {
    const text = keyText(deployment.key);
    const known = remembered.get(text);
    if (deps.audit === undefined || known === undefined || known.evidence.reason !== undefined) return;
    const { at, commit, heads } = known.evidence;
    const isSame = () => remembered.get(text) === known && !busy.has(text);
    deps.audit.note({
      deployment,
      objectsHash: known.objectsHash,
      commit,
      movedFrom: movedTo && deployment.status.observedCommit,
      evidence: `since ${rfc3339(at)}: ${known.objects.size} objects, ${heads.size} includes, the Secrets, the cluster, kluctl`,
      async whyOvertaken() {
        const now = deployments.all().find(({ key }) => keyText(key) === text);
        if (now === undefined || !isSame()) return "it was reconciled";
        const answer = await check(now, { maxAgeMs: 0 }, AbortSignal.timeout(requestMs));
        if (answer.kind !== "skipped") return answer.kind === "check" ? answer.why : answer.kind;
        return isSame() ? undefined : "it was reconciled";
      },
    });
  }

  async function answerOf(deployment: Deployment | MalformedDeployment, asked: SourceCheck): Promise<SkipDecision> {
    // Found clean while all deployments were dry runs, perhaps by this server: now something would be applied.
    if (wasDryRun(deployment.status.lastDeployResult) && !deps.dryRun?.())
      return checkBecause("settings", "its last deploy was a dry run");
    try {
      const answer = await check(deployment, asked, AbortSignal.timeout(requestMs));
      if (answer.kind !== "skipped" || isMalformed(deployment)) return answer;
      if (!(await moveTimes(deployment, answer.commit))) return { kind: "later" };
      noteSkip(deployment, answer.commit);
      return answer;
    } catch (error) {
      return checkBecause("refs", error instanceof Error ? error.message : String(error));
    }
  }

  async function skipCheck(
    deployment: Deployment | MalformedDeployment,
    asked: SourceCheck,
  ): Promise<SkipDecision["kind"]> {
    const { key } = deployment;
    const answer = await answerOf(deployment, asked);
    if (answer.kind === "later") return answer.kind;
    if (answer.kind === "skipped") {
      log.debug({ ...key, commit: answer.commit }, "check skipped: nothing can have changed");
      observe?.intervalCheck(undefined);
      return answer.kind;
    }
    log.debug({ ...key, reason: answer.reason, why: answer.why }, "check not skipped: something may have changed");
    observe?.intervalCheck(answer.reason);
    recentlyChecked.set(keyText(key), true);
    return answer.kind;
  }

  return {
    async during(key, work) {
      const text = keyText(key);
      busy.set(text, (busy.get(text) ?? 0) + 1);
      try {
        return await work();
      } finally {
        const left = (busy.get(text) ?? 1) - 1;
        if (left > 0) busy.set(text, left);
        else busy.delete(text);
        for (const callback of callbacks) callback(key);
      }
    },

    async begin(deployment, signal) {
      const includes = remembered.get(keyText(deployment.key))?.includes ?? [];
      const at = clock.now();
      // A failure here becomes a reason to check later; the reconciliation itself meets and reports the same error.
      const settle = <T>(value: Promise<T>) => value.catch(() => undefined);
      const [secretsNow, cluster, kluctl, commits] = await Promise.all([
        settle(queries.hashSecrets(deployment)),
        settle(queries.clusterFacts()),
        settle(queries.kluctl()),
        settle(queries.commitsOf(deployment, includes, { maxAgeMs: checkedWithinMs(deployment.spec) }, signal)),
      ]);
      return { at, secrets: secretsNow, cluster, kluctl, heads: commits };
    },

    async learn(before, found) {
      const { deployment, rendered, identity, deployed, deployResultId } = found;
      const key = keyText(deployment.key);
      remembered.delete(key);
      const { discriminator } = targetOf(rendered.document);
      if (discriminator === undefined || identity.cluster !== undefined || deployment.recordsChecks === false) return;
      const { versions, kinds, reason, hooks, waits } = seenObjects(rendered.objects, discriminator, {
        applied: deployed,
      });
      const inputs = inputsOf(rendered.document);
      const known = {
        uid: deployment.uid,
        generation: deployment.generation,
        deployResultId,
        objectsHash: rendered.objectsHash,
        discriminator,
        impersonate: identity.impersonate,
        kinds,
        objects: versions,
        complete: reason === undefined,
        hooks,
        waits: waits || waitsForItems(rendered.document),
        includes: inputs.reason === undefined ? inputs.includes : [],
      };
      const evidence = await collectEvidence(before, found, known).catch((error: unknown) => ({
        reason: "project" as const,
        why: error instanceof Error ? error.message : String(error),
      }));
      remembered.set(key, { ...known, evidence });
      // Starts watching the kinds that are not watched yet.
      applied.find(discriminator, known);
      if (evidence.reason !== undefined)
        log.debug({ ...deployment.key, reason: evidence.reason, why: evidence.why }, "marked for a check");
    },

    async whyCompare(deployment, commit, signal) {
      const known = remembered.get(keyText(deployment.key));
      const { observedCommit } = deployment.status;
      if (known === undefined || observedCommit === undefined) return "not reconciled by this server yet";
      // A full interval of 0 means that the user does not trust the evidence.
      if (!fullIntervalOf(deployment, deps.fullIntervalMs())) return annotation.fullInterval;
      const why = whyCompare(deployment, known, inCluster(known));
      if (why !== undefined) return why;
      if (!followsGit(deployment)) return "its source is not git";
      try {
        return whyUnlikely(deployment, await queries.changes(deployment, observedCommit, commit, signal));
      } catch (error) {
        // The previous commit may no longer exist.
        return error instanceof Error ? error.message : String(error);
      }
    },

    isBusy: (key) => busy.has(keyText(key)),
    known: (key) => remembered.get(keyText(key)),
    forget: (key) => void remembered.delete(keyText(key)),
    onEnd: (callback) => void callbacks.push(callback),

    skipCheck: (deployment, to) => skipCheck(deployment, { to }),
    async skipJob(deployment, asked) {
      const key = keyText(deployment.key);
      const hasReason = recentlyChecked.get(key);
      recentlyChecked.delete(key);
      return hasReason ? "check" : skipCheck(deployment, asked);
    },
  };
}

function checkBecause(reason: CheckReason, why: string): SkipDecision {
  return { kind: "check", reason, why };
}
