/**
 * Nothing is done when nothing can have changed: after a loop that found neither change nor drift, the next ones that an
 * interval asks for are left out while everything that went into that loop is provably as it was. What cannot be proven
 * is a doubt, and any doubt means a real loop.
 */
import type { Logger } from "../../log.ts";
import {
  annotation,
  type CommandResult,
  type Deployment,
  followsGit,
  type GitDeployment,
  isMalformed,
  keyText,
  type Key,
  type MalformedDeployment,
} from "../../model.ts";
import type { AppliedKind, AppliedObjects, Checkout, Clock, Deployments, Identity } from "../../ports.ts";
import { isReconciling, readyCondition } from "../conditions.ts";
import { decide } from "../decide.ts";
import { findSharing } from "../discriminators.ts";
import { isAsked } from "../requests.ts";
import { targetOf } from "../keys.ts";
import { rfc3339 } from "../time.ts";
import { type Cluster, type LastSeen, whyCompare, whyUnlikely } from "./comparing.ts";
import { createEvidence, evict, type EvidenceDeps, type Freshness, placeText } from "./evidence.ts";
import { type GitPlace, inputsOf, waitsForItems } from "./inputs.ts";
import { compareObjects, seenObjects } from "./objects.ts";
import { whyConcerned } from "./moves.ts";
import { fullIntervalOf, whySettings } from "./settings.ts";
import type { SkipAudit } from "./skip-audit.ts";

/** Why a loop is a real one; a label of the metric. */
export type Doubt =
  | "not-seen" // this server has not looked at it yet, or what it saw has been overtaken
  | "wanted" // somebody waits for it, or it is not ready
  | "due" // a full loop, a deploy or a validation
  | "settings" // of the deployment, such that nothing can be proven
  | "project" // reads what may change anywhere, or renders differently each time
  | "objects" // something that it applied has changed
  | "watch" // its objects are not watched
  | "secrets"
  | "refs"
  | "cluster" // another version of Kubernetes, other kinds, another schema
  | "kluctl"; // another version or another file

export type Answer =
  /** `commit`: where its source is now, if that is elsewhere than it was. */
  | { readonly kind: "skipped"; readonly commit?: string | undefined }
  /** Somebody has written its status meanwhile: what there is to do follows from that. */
  | { readonly kind: "later" }
  | { readonly kind: "wanted"; readonly doubt: Doubt; readonly why: string };

export interface SkippingDeps extends EvidenceDeps {
  readonly deployments: Pick<Deployments, "all" | "moveTimes">;
  readonly applied: AppliedObjects;
  /** At the latest after so long a loop is a real one, unless the deployment says otherwise. */
  readonly fullIntervalMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?: { intervalLoop(doubt: Doubt | undefined): void } | undefined;
  /** Absent: no skip is audited. */
  readonly audit?: Pick<SkipAudit, "note"> | undefined;
}

/** What was true right before kluctl looked. */
export interface Before {
  readonly at: number;
  readonly secrets: string | undefined;
  readonly cluster: string | undefined;
  readonly kluctl: string | undefined;
  /** The places that the project is known to include → their commits. */
  readonly heads: ReadonlyMap<string, string> | undefined;
}

/** What one loop found. */
export interface Found {
  readonly deployment: Deployment;
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly identity: Identity;
  /** What was deployed, or else compared. */
  readonly rendered: CommandResult;
  readonly deployed: boolean;
  /** Nothing differs, nothing failed, nothing waits. */
  readonly clean: boolean;
  readonly validated: boolean;
  readonly deployResultId: string | undefined;
  readonly signal: AbortSignal;
}

/** What a server remembers of a deployment that it has looked at. */
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
  /** When the remote was asked for it, or later. */
  readonly commitAt: number;
  readonly secrets: string;
  readonly cluster: string;
  readonly kluctl: string;
  readonly heads: ReadonlyMap<string, string>;
  /** Of its source it reads nothing but what lies in its directory. False for what is in no directory, or not from git. */
  readonly standsAlone: boolean;
  /** What the last validation found follows from the objects as they were. */
  readonly validated: boolean;
}

/** Where a deployment's source is, by an answer that was asked for at this time. */
export interface Moved {
  readonly commit: string;
  readonly at: number;
}

export interface Skipping {
  /** While it is worked on, what becomes of its objects is nobody else's doing. */
  during<T>(key: Key, work: () => Promise<T>): Promise<T>;
  /** Right before kluctl looks. */
  begin(deployment: Deployment, signal: AbortSignal): Promise<Before>;
  /** Without a `before` nothing is proven by it. */
  learn(before: Before | undefined, found: Found): Promise<void>;
  /** Why this commit has to be compared with the cluster before it is deployed; `undefined`: the deploy alone tells. */
  whyCompare(deployment: Deployment, commit: string, signal: AbortSignal): Promise<string | undefined>;
  isBusy(key: Key): boolean;
  known(key: Key): Known | undefined;
  forget(key: Key): void;
  /** Another kluctl may render something else of the same. */
  forgetAll(): void;
  /**
   * Says whether the loop is left out that an interval asks for, or a move of its source. If it is, the times in the
   * status have moved, and the commit.
   */
  spare(deployment: Deployment | MalformedDeployment, to?: Moved): Promise<Answer["kind"]>;
  /** The same for a job that was asked for, be it by this server, which then has found a doubt already. */
  spareJob(
    deployment: Deployment | MalformedDeployment,
    to?: Moved,
    fresh?: Pick<Freshness, "move">,
  ): Promise<Answer["kind"]>;
  /** Calls back when nobody is at work on it any more. */
  onEnd(callback: (key: Key) => void): void;
}

const requestMs = 20_000;
/** Another server may have moved the commit on by an answer that is newer than this one's. */
const freshMs = 5_000;
/** For so long the job that follows from a doubt need not ask again. */
const doubtMs = 60_000;

export function createSkipping(deps: SkippingDeps): Skipping {
  const { deployments, applied, clock, log, observe } = deps;
  const evidence = createEvidence(deps);
  const remembered = new Map<string, Known>();
  const busy = new Map<string, number>();
  const doubtedAt = new Map<string, number>();
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
    moved: Moved | undefined,
    { since: notBefore = -Infinity, move }: Freshness,
    signal: AbortSignal,
  ): Promise<Answer> {
    const now = clock.now();
    const known = remembered.get(keyText(deployment.key));
    if (known === undefined || known.uid !== deployment.uid)
      return look("not-seen", "not reconciled by this server yet");
    if (isMalformed(deployment) || isReconciling(deployment.status) || isAsked(deployment)) {
      return look("wanted", "it was requested, or is in progress");
    }
    const { status, spec, generation } = deployment;
    if (readyCondition(status)?.status !== "True") return look("wanted", "it is not ready");
    if (deployment.deletionTimestamp !== undefined || deployment.deployAsked !== undefined)
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
      // What another server has found to be nothing to it, this one can find out as well.
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
    // The memory may have changed while others were asked.
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

  /** One small write for what would have been a loop, and none while somebody else writes. */
  async function moveTimes(deployment: Deployment, commit: string | undefined): Promise<boolean> {
    const { spec, status } = deployment;
    const key = keyText(deployment.key);
    const time = rfc3339(clock.now());
    const times = { startTime: time, endTime: time };
    const known = remembered.get(key);
    if (known === undefined || known.proof.doubt !== undefined) return false;
    // As long as nothing of its objects is another, a validation finds what the last one found.
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

  /** What was believed of this very deployment, so that it can be asked for once more. */
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
    to: Moved | undefined,
    fresh: Freshness,
  ): Promise<Answer> {
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
    to?: Moved,
    fresh: Freshness = {},
  ): Promise<Answer["kind"]> {
    const { key } = deployment;
    const answer = await answerOf(deployment, to, fresh);
    if (answer.kind === "later") return answer.kind;
    if (answer.kind === "skipped") {
      log.debug({ ...key, commit: answer.commit }, "check skipped: nothing can have changed");
      observe?.intervalLoop(undefined);
      return answer.kind;
    }
    log.debug({ ...key, doubt: answer.doubt, why: answer.why }, "check not skipped: something may have changed");
    observe?.intervalLoop(answer.doubt);
    doubtedAt.delete(keyText(key));
    doubtedAt.set(keyText(key), clock.now());
    evict(doubtedAt);
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
      // What cannot be had now is a doubt later; the loop itself meets the same errors, and tells.
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
      if (discriminator === undefined || identity.cluster !== undefined || deployment.apiVersion !== undefined) return;
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
      // Begins to watch what is not watched yet.
      applied.find(discriminator, known);
      if (proof.doubt !== undefined)
        log.debug({ ...deployment.key, doubt: proof.doubt, why: proof.why }, "marked for a check");
    },

    async whyCompare(deployment, commit, signal) {
      const known = remembered.get(keyText(deployment.key));
      const { observedCommit } = deployment.status;
      if (known === undefined || observedCommit === undefined) return "not reconciled by this server yet";
      // Who wants real loops only does not trust what a proof is made of.
      if (!fullIntervalOf(deployment, deps.fullIntervalMs())) return annotation.fullInterval;
      const why = whyCompare(deployment, known, inCluster(known));
      if (why !== undefined) return why;
      if (!followsGit(deployment)) return "its source is not git";
      try {
        return whyUnlikely(deployment, await evidence.changes(deployment, observedCommit, commit, signal));
      } catch (error) {
        // The commit from before may be gone.
        return error instanceof Error ? error.message : String(error);
      }
    },

    isBusy: (key) => busy.has(keyText(key)),
    known: (key) => remembered.get(keyText(key)),
    forget: (key) => void remembered.delete(keyText(key)),
    forgetAll: () => remembered.clear(),
    onEnd: (callback) => void callbacks.push(callback),

    spare,
    async spareJob(deployment, to, fresh) {
      const at = doubtedAt.get(keyText(deployment.key));
      doubtedAt.delete(keyText(deployment.key));
      return at !== undefined && clock.now() - at < doubtMs ? "wanted" : spare(deployment, to, fresh);
    },
  };
}

function look(doubt: Doubt, why: string): Answer {
  return { kind: "wanted", doubt, why };
}
