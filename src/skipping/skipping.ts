/**
 * Skips checks when nothing can have changed: after a reconciliation that found neither a change nor drift, interval
 * checks are skipped while everything that went into it is provably unchanged. Anything that cannot be proven is a
 * reason to check, and then a full reconciliation runs.
 */
import type { Logger } from "../log.ts";
import {
  annotation,
  type Deployment,
  followsGit,
  isMalformed,
  type Key,
  keyText,
  type MalformedDeployment,
} from "../model.ts";
import type { AppliedObjects, Clock, Deployments } from "../ports.ts";
import type { Head } from "../reconcile/parts.ts";
import { checkedWithinMs } from "../reconcile/freshness.ts";
import { targetOf } from "../reconcile/keys.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { rfc3339 } from "../kit/time.ts";
import { inputsOf, waitsForItems } from "../model/project-inputs.ts";
import { wasDryRun } from "../model/last-deploy.ts";
import { checkBecause, createCheck, type SkipDecision, type SourceCheck } from "./check.ts";
import { whyCompare, whyUnlikely } from "./comparing.ts";
import { type CheckReason, collectEvidence, type Found, type InputsBefore, type Known } from "./evidence.ts";
import { seenObjects } from "./objects.ts";
import { createQueries, mostRemembered, type QueriesDeps } from "./queries.ts";
import { fullIntervalOf } from "./settings.ts";
import type { SkipAudit } from "./skip-audit.ts";

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
  const check = createCheck({
    ...{ remembered, queries, deployments, applied, clock },
    fullIntervalMs: () => deps.fullIntervalMs(),
  });
  const callbacks: ((key: Key) => void)[] = [];

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
      const evidence = await collectEvidence(queries, before, found, known).catch((error: unknown) => ({
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
      const why = whyCompare(deployment, known, applied.find(known.discriminator, known));
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
