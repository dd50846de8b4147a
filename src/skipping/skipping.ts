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
import { targetOf } from "../reconcile/keys.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { rfc3339 } from "../kit/time.ts";
import { type Cluster, type LastSeen, whyCompare, whyUnlikely } from "./comparing.ts";
import { createEvidence, type EvidenceDeps, type Freshness, mostRemembered, placeText } from "./evidence.ts";
import { type GitPlace, inputsOf, waitsForItems } from "./inputs.ts";
import { compareObjects, seenObjects } from "./objects.ts";
import { whyConcerned } from "./moves.ts";
import { fullIntervalOf, whySettings } from "./settings.ts";
import type { SkipAudit } from "./skip-audit.ts";

/** Why a check is not skipped; a label of the metric. */
export type Doubt =
  | "not-seen" // this server has not reconciled it yet, or its state was changed by others since
  | "wanted" // it was requested, or it is not ready
  | "due" // a full reconciliation, a deploy or a validation
  | "settings" // the deployment's settings make a proof impossible
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
  | { readonly kind: "wanted"; readonly doubt: Doubt; readonly why: string };

export interface SkippingDeps extends EvidenceDeps {
  readonly deployments: Pick<Deployments, "all" | "moveTimes">;
  readonly applied: AppliedObjects;
  /** The longest time between two full reconciliations, unless the deployment sets its own. */
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: { intervalCheck(reason: Doubt | undefined): void } | undefined;
  /** Absent: no skip is audited. */
  readonly audit?: Pick<SkipAudit, "note"> | undefined;
}

/** The inputs right before kluctl ran. */
export interface Before {
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
  readonly proof: Proof | { readonly doubt: Doubt; readonly why: string };
}

interface Proof {
  readonly doubt?: undefined;
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
  readonly standsAlone: boolean;
  /** The result of the last validation follows from the objects' recorded versions. */
  readonly validated: boolean;
}

export interface Skipping {
  /** Marks the deployment as busy: changes of its objects meanwhile are attributed to this work. */
  during<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /** Collects the evidence right before kluctl runs. */
  begin(deployment: Deployment, signal: AbortSignal): Promise<Before>;
  /** Without `before`, the result is no evidence. */
  learn(before: Before | undefined, found: Found): Promise<void>;
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
  spare(deployment: Deployment | MalformedDeployment, to?: Head): Promise<SkipDecision["kind"]>;
  /** The same for a queued job. If this server queued it, it has already found a reason to check. */
  spareJob(
    deployment: Deployment | MalformedDeployment,
    to?: Head,
    fresh?: Pick<Freshness, "move">,
  ): Promise<SkipDecision["kind"]>;
  /** Calls back when the work on a deployment ends. */
  onEnd(callback: (key: Key) => void): void;
}

const requestMs = 20_000;
/** The answer's maximum age if another server has updated the observed commit, perhaps from a newer answer. */
const freshMs = 5_000;
/** For this long, the job queued because of a reason to check need not collect the evidence again. */
const doubtMs = 60_000;

export function createSkipping(deps: SkippingDeps): Skipping {
  const { deployments, applied, clock, log, observe } = deps;
  const evidence = createEvidence(deps);
  const remembered = new Map<string, Known>();
  const busy = new Map<string, number>();
  const doubted = createBoundedMap<true>({ entries: mostRemembered, maxAgeMs: doubtMs, now: () => clock.now() });
  const callbacks: ((key: Key) => void)[] = [];

  async function prove(before: Before | undefined, found: Found, known: Omit<Known, "proof">): Promise<Known["proof"]> {
    const { deployment, rendered, identity, clean, deployed, checkout, validated } = found;
    const settings = whySettings(deployment, identity);
    if (settings !== undefined) return { doubt: "settings", why: settings };
    const inputs = inputsOf(rendered.document);
    if (inputs.doubt !== undefined) return { doubt: "project", why: inputs.doubt };
    if (deployed || !clean) return { doubt: "wanted", why: "the last reconciliation changed or reported something" };
    if (before === undefined) return { doubt: "wanted", why: "the last reconciliation was requested" };
    if (!known.complete) return { doubt: "objects", why: "kluctl did not report all of its objects" };
    if (before.secrets === undefined) return { doubt: "secrets", why: "could not read its Secrets" };
    if (before.cluster === undefined) return { doubt: "cluster", why: "could not read the cluster's API resources" };
    if (before.kluctl === undefined) return { doubt: "kluctl", why: "kluctl is not available" };
    const places = inputs.includes.map(placeText);
    if (before.heads === undefined || places.some((place) => !before.heads?.has(place))) {
      return { doubt: "refs", why: "the project's includes were unknown before it was rendered" };
    }
    const commits = new Map(places.map((place) => [place, before.heads?.get(place) ?? ""]));
    const { unsteady, standsAlone } = await evidence.findUnsteady(found, commits, inputs);
    if (unsteady !== undefined) return { doubt: "project", why: unsteady };
    return {
      at: before.at,
      commit: checkout.commit,
      commitAt: before.at,
      secrets: before.secrets,
      cluster: before.cluster,
      kluctl: before.kluctl,
      heads: commits,
      standsAlone,
      validated,
    };
  }

  async function check(
    deployment: Deployment | MalformedDeployment,
    moved: Head | undefined,
    { since: notBefore = -Infinity, move }: Freshness,
    signal: AbortSignal,
  ): Promise<SkipDecision> {
    const now = clock.now();
    const known = remembered.get(keyText(deployment.key));
    if (known === undefined || known.uid !== deployment.uid)
      return look("not-seen", "not reconciled by this server yet");
    if (isMalformed(deployment) || isReconciling(deployment.status) || isAsked(deployment)) {
      return look("wanted", "it was requested, or is in progress");
    }
    const { status, spec, generation } = deployment;
    if (readyCondition(status)?.status !== "True") return look("wanted", "it is not ready");
    if (deployment.deletionTimestamp !== undefined || deployment.deployRequest !== undefined)
      return look("wanted", "it is requested");
    if (known.generation !== generation || status.observedGeneration !== generation)
      return look("wanted", "it changed");
    const { proof } = known;
    if (proof.doubt !== undefined) return look(proof.doubt, proof.why);

    const fullMs = fullIntervalOf(deployment, deps.fullIntervalMs());
    if (fullMs === undefined) return look("settings", `${annotation.fullInterval} is not a duration, e.g. 1h`);
    if (now - proof.at >= fullMs) return look("due", "a full reconciliation is due");
    const same =
      status.lastDeployResult?.id === known.deployResultId &&
      status.lastObjectsHash === known.objectsHash &&
      // If another server found that a move does not affect it, this server can find the same.
      (proof.standsAlone || status.observedCommit === (proof.commit || undefined)) &&
      status.lastPrepareError === undefined &&
      status.lastDriftDetectionResultMessage === "no drift";
    if (!same) return look("not-seen", "another server or a user has reconciled it since");
    const decision = decide({ spec, status, generation, now, retrying: false }, known.objectsHash);
    if (decision.deploy !== undefined || decision.waitsForApproval) return look("due", decision.deploy ?? "approval");
    if (decision.validate && spec.validateIntervalMs !== undefined) return look("due", "a validation is due");
    if (findSharing(deployment, status.targetKey, deployments.all()).length > 0) {
      return look("settings", "another deployment has the same discriminator");
    }

    const { objects, unknown } = inCluster(known);
    if (objects === undefined) return look("watch", unknown);
    const difference = compareObjects(known.objects, objects);
    if (difference.kind === "status") {
      const follows = spec.validate && spec.validateIntervalMs === undefined;
      if (follows) return look("objects", `the status of ${difference.id} changed, and validation depends on it`);
    } else if (difference.kind !== "same") return look("objects", `${difference.id}: ${difference.kind}`);
    if (decision.validate && !proof.validated) return look("due", "a validation is due");

    if ((await evidence.hashSecrets(deployment)) !== proof.secrets)
      return look("secrets", "a Secret that it references changed");
    if (moved !== undefined && moved.at < proof.commitAt) return { kind: "later" };
    let commit: string | undefined = proof.commit;
    if (followsGit(deployment)) {
      const isOurs = status.observedCommit === proof.commit;
      const fresh = { since: Math.max(notBefore, isOurs ? proof.commitAt : now - freshMs), move };
      commit = moved?.commit ?? (await evidence.sourceCommit(deployment, fresh, signal));
      const why = commit === proof.commit ? undefined : await whyMoveMatters(deployment, proof, commit, signal);
      if (why !== undefined) return look("refs", why);
    }
    const includes = await evidence.commitsOf(deployment, known.includes, { since: notBefore }, signal);
    for (const [place, commit] of proof.heads) {
      if (includes.get(place) !== commit) return look("refs", `${place} has moved`);
    }
    if ((await evidence.clusterFacts({ since: notBefore })) !== proof.cluster)
      return look("cluster", "the cluster's version, kinds or schemas changed");
    if ((await evidence.kluctl({ since: notBefore })) !== proof.kluctl)
      return look("kluctl", "the kluctl binary changed");
    // What is remembered may have changed during these queries.
    if (remembered.get(keyText(deployment.key)) !== known) return look("not-seen", "it was reconciled meanwhile");
    return { kind: "skipped", ...(commit && commit !== status.observedCommit && { commit }) };
  }

  const inCluster = (known: Known): Cluster => applied.find(known.discriminator, known);

  async function whyMoveMatters(
    deployment: GitDeployment,
    { commit: from, standsAlone }: Proof,
    to: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (to === undefined || !standsAlone) return `the source is at ${to ?? "no commit"}`;
    const why = whyConcerned(await evidence.changes(deployment, from, to, signal), deployment);
    return why && `the source is at ${to}: ${why}`;
  }

  /** Replaces a reconciliation by one small status write; writes nothing if the status was changed meanwhile. */
  async function moveTimes(deployment: Deployment, commit: string | undefined): Promise<boolean> {
    const { spec, status } = deployment;
    const key = keyText(deployment.key);
    const time = rfc3339(clock.now());
    const times = { startTime: time, endTime: time };
    const known = remembered.get(key);
    if (known === undefined || known.proof.doubt !== undefined) return false;
    // While its objects are unchanged, a validation finds the same as the last one.
    const validates = spec.validate && known.proof.validated && spec.validateIntervalMs === undefined;
    const written = await deployments.moveTimes(deployment, {
      lastDriftDetectionResult: times,
      ...(validates && status.lastValidateResult !== undefined && { lastValidateResult: times }),
      ...(commit !== undefined && { observedCommit: commit }),
    });
    if (written && commit !== undefined && remembered.get(key) === known)
      remembered.set(key, { ...known, proof: { ...known.proof, commit, commitAt: clock.now() } });
    return written;
  }

  /** Passes the skip to the audit, with what was assumed, so that it can be verified. */
  function noteSkip(deployment: Deployment, movedTo: string | undefined): void {
    const text = keyText(deployment.key);
    const known = remembered.get(text);
    if (deps.audit === undefined || known === undefined || known.proof.doubt !== undefined) return;
    const { at, commit, heads } = known.proof;
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
        const answer = await check(now, undefined, { since: clock.now() }, AbortSignal.timeout(requestMs));
        if (answer.kind !== "skipped") return answer.kind === "wanted" ? answer.why : answer.kind;
        return isSame() ? undefined : "it was reconciled";
      },
    });
  }

  async function answerOf(
    deployment: Deployment | MalformedDeployment,
    to: Head | undefined,
    fresh: Freshness,
  ): Promise<SkipDecision> {
    try {
      const answer = await check(deployment, to, fresh, AbortSignal.timeout(requestMs));
      if (answer.kind !== "skipped" || isMalformed(deployment)) return answer;
      if (!(await moveTimes(deployment, answer.commit))) return { kind: "later" };
      noteSkip(deployment, answer.commit);
      return answer;
    } catch (error) {
      return look("refs", error instanceof Error ? error.message : String(error));
    }
  }

  async function spare(
    deployment: Deployment | MalformedDeployment,
    to?: Head,
    fresh: Freshness = {},
  ): Promise<SkipDecision["kind"]> {
    const { key } = deployment;
    const answer = await answerOf(deployment, to, fresh);
    if (answer.kind === "later") return answer.kind;
    if (answer.kind === "skipped") {
      log.debug({ ...key, commit: answer.commit }, "check skipped: nothing can have changed");
      observe?.intervalCheck(undefined);
      return answer.kind;
    }
    log.debug({ ...key, doubt: answer.doubt, why: answer.why }, "check not skipped: something may have changed");
    observe?.intervalCheck(answer.doubt);
    doubted.set(keyText(key), true);
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
        settle(evidence.hashSecrets(deployment)),
        settle(evidence.clusterFacts()),
        settle(evidence.kluctl()),
        settle(evidence.commitsOf(deployment, includes, {}, signal)),
      ]);
      return { at, secrets: secretsNow, cluster, kluctl, heads: commits };
    },

    async learn(before, found) {
      const { deployment, rendered, identity, deployed, deployResultId } = found;
      const key = keyText(deployment.key);
      remembered.delete(key);
      const { discriminator } = targetOf(rendered.document);
      if (discriminator === undefined || identity.cluster !== undefined || deployment.recordsChecks === false) return;
      const { versions, kinds, doubt, hooks, waits } = seenObjects(rendered.objects, discriminator, {
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
        complete: doubt === undefined,
        hooks,
        waits: waits || waitsForItems(rendered.document),
        includes: inputs.doubt === undefined ? inputs.includes : [],
      };
      const proof = await prove(before, found, known).catch((error: unknown) => ({
        doubt: "project" as const,
        why: error instanceof Error ? error.message : String(error),
      }));
      remembered.set(key, { ...known, proof });
      // Starts watching the kinds that are not watched yet.
      applied.find(discriminator, known);
      if (proof.doubt !== undefined)
        log.debug({ ...deployment.key, doubt: proof.doubt, why: proof.why }, "marked for a check");
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
        return whyUnlikely(deployment, await evidence.changes(deployment, observedCommit, commit, signal));
      } catch (error) {
        // The previous commit may no longer exist.
        return error instanceof Error ? error.message : String(error);
      }
    },

    isBusy: (key) => busy.has(keyText(key)),
    known: (key) => remembered.get(keyText(key)),
    forget: (key) => void remembered.delete(keyText(key)),
    onEnd: (callback) => void callbacks.push(callback),

    spare,
    async spareJob(deployment, to, fresh) {
      const key = keyText(deployment.key);
      const isDoubted = doubted.get(key);
      doubted.delete(key);
      return isDoubted ? "wanted" : spare(deployment, to, fresh);
    },
  };
}

function look(doubt: Doubt, why: string): SkipDecision {
  return { kind: "wanted", doubt, why };
}
