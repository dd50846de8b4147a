/**
 * The preview of a merge queue's group. The host has made the merge already and waits for its checks, so every path
 * through this file ends with a status, even if nothing is compared.
 */
import { setTimeout as sleepFor } from "node:timers/promises";
import { ForgeError, QueueUnavailableError, SupersededError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  type Attempt,
  commitText,
  type CommitStatus,
  type Deployment,
  followsGit,
  type GitDeployment,
  type MalformedDeployment,
  type MergeGroupKey,
  type MergeGroupRequest,
  type Outcome,
  parseQueueBranch,
  type RepoId,
} from "../model.ts";
import type { Forge, Reports } from "../ports.ts";
import { toFailure } from "../reconcile/failures.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { aggregateContext, sumOf } from "../reporting/statuses.ts";
import type { Report } from "../model/report.ts";
import { redactVisibly } from "./visible-text.ts";
import { type Early, earlyAfterMs, startEarly } from "./early.ts";
import { describeFindings, type Findings } from "./findings.ts";
import { toForgeOutcome } from "./forge-outcome.ts";
import { matchPullRequest } from "./match.ts";
import { matchConsumers, mostConsumers, shownIncludesOf } from "./match-consumers.ts";
import { type Readers, readersOf } from "./merges.ts";
import { type GroupAtHost, isInGit, openGroup } from "./open-group.ts";
import { compareMerges, type OpenDeps } from "./open.ts";
import { withOwnShare } from "./own-share.ts";
import { describeReport } from "./summary.ts";

export interface MergeGroupDeps extends OpenDeps {
  /** False: no project is rendered. The queue still gets its status. */
  readonly enabled: boolean;
  /** Whether groups are rendered although a member comes from a fork, or its origin is unknown. */
  readonly renderForks: boolean;
  /** The forges with credentials for their API, by id. */
  readonly forges: ReadonlyMap<string, Pick<Forge, "repoName" | "pullRequest">>;
  readonly deployments: { all(): readonly (Deployment | MalformedDeployment)[]; synced(): boolean };
  readonly reports: Pick<Reports, "groupStatuses" | "saveGroupStatus">;
  /** Updates the status on the forge to the current state of the group. Throws ForgeError. */
  readonly write: (group: MergeGroupKey, repo: RepoId | undefined, signal: AbortSignal) => Promise<void>;
  readonly log: Logger;
  /** Rejects when the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

type Verdict = Pick<CommitStatus, "state" | "description" | "neutral">;

/** The deployments that a group may concern. */
interface Concerned {
  readonly following: readonly GitDeployment[];
  /** They include its repository, and its pull requests may show them. */
  readonly including: readonly GitDeployment[];
  readonly readers: readonly Readers[];
}

interface Comparing extends Attempt {
  readonly report: (verdict: Verdict) => Promise<void>;
  readonly log: Logger;
}

const notSyncedMs = 1_000;
/** Nothing was compared, and the queue continues. */
const unjudged = { state: "success", neutral: true } as const;
const ended: Verdict = { state: "canceled", description: "the merge queue is done with this commit" };

export function createMergeGroupPreview(deps: MergeGroupDeps) {
  const sleep = deps.sleep ?? ((ms, signal) => sleepFor(ms, undefined, { signal, ref: false }));

  return async function previewGroup(request: MergeGroupRequest, attempt: Attempt): Promise<Outcome> {
    const { group, delivery } = request;
    const { signal } = attempt;
    const log = deps.log.child({ group: commitText(group), branch: group.branch, delivery });
    try {
      return await answer(request, attempt, log);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (signal.aborted && signal.reason instanceof SupersededError) return { kind: "skipped", why: message };
      if (signal.aborted || error instanceof QueueUnavailableError) return { kind: "failed", retry: "soon", message };
      const outcome = toForgeOutcome(error);
      if (outcome.kind === "failed") log.warn({ error: outcome.message }, "forge rejected a merge group's status");
      return outcome;
    }
  };

  async function answer(request: MergeGroupRequest, attempt: Attempt, log: Logger): Promise<Outcome> {
    const { group } = request;
    const { signal } = attempt;
    const forge = deps.forges.get(group.forge);
    const queue = parseQueueBranch(group.branch);
    if (forge === undefined || queue === undefined) {
      return { kind: "skipped", why: `no login is configured for the API of forge ${group.forge}` };
    }
    if (!deps.deployments.synced()) {
      return { kind: "later", afterMs: notSyncedMs, why: "the deployments are not loaded yet" };
    }
    const isOfRepository = ({ repo }: { readonly repo: RepoId }) =>
      forge.repoName(repo)?.toLowerCase() === group.repoName.toLowerCase();
    const all = deps.deployments.all().filter((one) => followsGit(one));
    const following = all.filter(isOfRepository);
    const including = all.filter((one) => shownIncludesOf(one).some(isOfRepository));
    const included = including.flatMap(shownIncludesOf).filter(isOfRepository);
    const repoUrls = [...following.map(({ spec }) => spec.source.url), ...included.map(({ url }) => url)];
    const repo = [...following, ...included][0]?.repo;
    const readers = readersOf({ repoUrls }, { followers: following, consumers: including });
    const record = async (status: CommitStatus): Promise<void> => {
      await deps.reports.saveGroupStatus(group, status);
      await deps.write(group, repo, signal);
    };

    const statusNow = async () => (await deps.reports.groupStatuses(group)).get(group.branch);
    const known = await statusNow();
    // Two events announce a group, and either may be repeated or late.
    if (known !== undefined && known.state !== "pending") {
      await deps.write(group, repo, signal);
      return { kind: "skipped", why: "the group was reported already" };
    }
    const end = async (): Promise<Outcome> => {
      const pending = await statusNow();
      // If no status was written, none has to be completed, and the commit may belong to another group or to the base
      // branch.
      if (pending !== undefined) await record({ ...pending, ...ended });
      return { kind: "skipped", why: ended.description };
    };
    // Otherwise git decides whether the group has ended: the sender of a delivery may claim anything.
    if (request.ended && readers.length === 0) return end();
    // If the pull request cannot be read, the status has no link: the queue still gets its status.
    const pullRequest = await forge.pullRequest({ ...group, number: queue.pullRequest }, signal).catch(unlessRefused);
    const about = { context: aggregateContext, url: pullRequest?.url, proposed: true };
    const report = (verdict: Verdict) => record({ ...about, ...verdict });
    const verdict = await compareGroup(
      { group, queue, repoUrls, following, including, readers, forge, renderForks: deps.renderForks },
      { ...attempt, report, log },
    );
    if (verdict === "ended") return end();
    if ("retry" in verdict) return { kind: "failed", ...verdict };
    await report(verdict);
    return { kind: "done" };
  }

  async function compareGroup(
    group: GroupAtHost & Concerned,
    { report, log, ...attempt }: Comparing,
  ): Promise<Verdict | "ended" | { readonly retry: "soon"; readonly message: string }> {
    const { signal, lastAttempt } = attempt;
    const startedAt = deps.clock.now();
    const pullRequest = { baseBranch: group.queue.baseBranch, repoUrls: group.repoUrls };
    const { concerned: followers, ...followed } = matchPullRequest(pullRequest, group.following);
    const others = group.including.filter((one) => !followers.includes(one));
    const { concerned, ...included } = matchConsumers(pullRequest, others);
    const candidates = readersOf(pullRequest, { followers, consumers: concerned.slice(0, mostConsumers) });
    const ignored = [...followed.ignored, ...included.ignored];
    const findings: Findings = { previews: [], ignored, secrets: deps.settings.serverSecrets ?? [] };
    let members: readonly number[] = [];
    const verdict = (state: "working" | "done") =>
      toVerdict({ state, ...findings, previews: [...findings.previews] }, members);

    const announce = () =>
      report(verdict("working")).catch((error: unknown) => {
        log.debug({ err: error }, "could not post the early status; the final one will follow");
      });
    let early: Early | undefined;
    try {
      if (group.readers.length > 0 && !(await isInGit(group.group, group.readers, deps, signal))) return "ended";
      if (!deps.enabled) return { ...unjudged, description: "not compared: previews are disabled" };
      if (candidates.length === 0) return verdict("done");
      early = startEarly({ afterMs: earlyAfterMs, sleep, announce }, signal);
      const opened = await openGroup(group, candidates, deps, signal);
      if (opened.kind === "ended") return "ended";
      if (opened.kind === "refused") return { ...unjudged, description: `not rendered: ${opened.why}` };
      members = opened.members;
      const own = withOwnShare(deps, group.group, group.group.branch);
      const unsure = await compareMerges({ ...attempt, ...opened, pullRequest, log }, findings, early, own);
      signal.throwIfAborted();
      if (unsure > 0 && !lastAttempt) {
        return { retry: "soon", message: `${unsure} of ${findings.previews.length} previews failed` };
      }
      log.info({ ...describeFindings(findings), ms: deps.clock.now() - startedAt }, "merge group previewed");
      return verdict("done");
    } catch (error) {
      if (signal.aborted || error instanceof QueueUnavailableError || needsTime(error)) throw error;
      const failure = toFailure(error);
      const message = await redactVisibly(failure.message, findings.secrets);
      if (failure.retry === "soon" && !lastAttempt) return { retry: "soon", message };
      log.warn({ retry: failure.retry, error: message }, "merge group preview failed");
      return { state: "failure", description: `could not be compared: ${inOneLine(message)}` };
    } finally {
      await early?.stop();
    }
  }
}

function needsTime(error: unknown): boolean {
  return error instanceof ForgeError && toForgeOutcome(error).kind === "later";
}

function unlessRefused(error: unknown): undefined {
  if (!(error instanceof ForgeError) || needsTime(error)) throw error;
}

/** One line with the first cause of a failure, because a group has no comment. */
function toVerdict(report: Pick<Report, "state" | "obstacle" | "previews">, members: readonly number[]): Verdict {
  const cause = firstCause(report);
  const included = members.length > 1 ? `; includes ${members.map((number) => `#${number}`).join(", ")}` : "";
  return { state: sumOf(report, false), description: `${describeReport(report)}${cause}${included}` };
}

function firstCause({ previews: all }: Pick<Report, "previews">): string {
  // What only includes the repository, and fails for another reason than the change, fails no group.
  const previews = all.filter(({ includes, failed }) => !(includes && failed === "run"));
  const failed = previews.find(({ state }) => state === "failed") ?? previews.find(({ errors }) => errors.length > 0);
  if (failed === undefined) return "";
  const { namespace, name } = failed.deployment;
  const [first] = failed.errors;
  const object = first?.ref === undefined ? "" : `${first.ref.kind}/${first.ref.name}: `;
  return `; ${namespace}/${name}: ${object}${inOneLine(failed.failure ?? first?.message ?? "")}`;
}
