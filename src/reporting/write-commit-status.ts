/** Updates a pushed commit's statuses to the current state of its deployments. */
import { isDeepStrictEqual } from "node:util";
import { commitOf, refName } from "../model/git-ref.ts";
import { RemoteBusyError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { CommitKey, CommitStatusRequest, GitDeployment, Heads, Outcome, RepoId } from "../model.ts";
import type { RolloutRest } from "../model/report.ts";
import { toForgeOutcome } from "../preview/forge-outcome.ts";
import type { Deployments, Forge, Queue, Reports, Secrets, Sources } from "../ports.ts";
import { loginKey, readGitCredentials } from "../access/credentials.ts";
import { deployStatuses, type Follower, restOfStatuses } from "./deploy-statuses.ts";
import type { WriteEnvironments } from "./environments/write-environments.ts";
import { findApplied } from "./flux-spellings.ts";
import type { FluxStatuses } from "./flux-statuses.ts";
import { followRollout } from "./rollout.ts";
import { aggregateContext, isPreviewLine, linkedTo, withoutLink } from "./statuses.ts";
import { writeStatuses } from "./write-statuses.ts";

export interface CommitStatusWriterDeps {
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Pick<
    Reports,
    | "statuses"
    | "saveStatuses"
    | "reruns"
    | "setUnsettled"
    | "proposing"
    | "mergedAs"
    | "rolloutRest"
    | "setRolloutRest"
  >;
  readonly queue: Pick<Queue, "enqueue">;
  readonly deployments: Pick<Deployments, "tracking"> & { synced(): boolean };
  /** The repositories of everything that is reported. */
  readonly followedRepos: () => Iterable<RepoId>;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly lastMove: Queue["lastMove"];
  readonly writeEnvironments: WriteEnvironments;
  /** Absent: nothing is reported of what Flux applies. */
  readonly flux?: FluxStatuses | undefined;
  /** The page's view of a commit, if the page has a public address. */
  readonly urlOf: (commit: string) => string | undefined;
  readonly log: Logger;
}

const notSyncedMs = 1_000;

export function createCommitStatusWriter(deps: CommitStatusWriterDeps) {
  const { forges, reports, deployments, log } = deps;

  return async function writeCommitStatus(request: CommitStatusRequest, signal?: AbortSignal): Promise<Outcome> {
    const { commit } = request;
    const forge = forges.get(commit.forge);
    if (forge === undefined) return { kind: "skipped", why: "the forge is no longer configured" };
    const repos = findRepos(forge, request);
    // Deployments that are not loaded yet would appear to follow something else.
    if (!deployments.synced() || repos.some((repo) => deps.flux?.isReady(repo) === false)) {
      return { kind: "later", afterMs: notSyncedMs, why: "the deployments are not loaded yet" };
    }
    try {
      return await write(forge, repos, request, signal);
    } catch (error) {
      if (error instanceof RemoteBusyError) return { kind: "later", afterMs: error.retryAfterMs, why: error.message };
      const outcome = toForgeOutcome(error);
      if (outcome.kind === "failed") {
        log.warn({ ...commit, error: outcome.message }, "forge rejected a commit status");
      }
      return outcome;
    }
  };

  /** The repository in each of its spellings: what follows it under another URL reports to the same commits. */
  function findRepos(forge: Forge, { commit, repo }: CommitStatusRequest): readonly RepoId[] {
    const isSame = (other: RepoId) => forge.repoName(other)?.toLowerCase() === commit.repoName.toLowerCase();
    return [...new Set([repo, ...[...deps.followedRepos()].filter(isSame)])];
  }

  /** Throws a RemoteBusyError before anything is written, or the forge's error. */
  async function write(
    forge: Forge,
    repos: readonly RepoId[],
    request: CommitStatusRequest,
    signal: AbortSignal | undefined,
  ): Promise<Outcome> {
    const { commit } = request;
    // Before anything is read: a deployment that ends while git is asked then queues this job again.
    await setUnsettled(commit, repos, true);
    const findFollowing = () =>
      repos.flatMap((repo) => deployments.tracking(repo)).filter(({ spec }) => spec.source.ref.commit === undefined);
    const following = findFollowing();
    const toFollower = await readHeads(following, signal);
    const followers = following.map(toFollower);
    const written = (await reports.statuses(commit)).filter((line) => !isPreviewLine(line)).map(withoutLink);
    const applied = deps.flux && (await findApplied(deps.flux, { request, repos, written }, signal));
    const current = deployStatuses(commit.commit, followers, written, applied?.lines);
    if (applied?.isUncertain && current.every(({ context }) => context === aggregateContext)) {
      // Perhaps it is none of ours.
      if (written.length === 0 && !applied.isOpen) await setUnsettled(commit, repos, false);
      return applied.again ?? { kind: "done" };
    }
    // While a pull request proposes the commit, the summary belongs to the pull request: a check may depend on it.
    const proposing = await Promise.all(repos.map((repo) => reports.proposing(repo, commit.commit)));
    const isProposed = proposing.flat().length > 0;
    const own = isProposed ? current.filter(({ context }) => context !== aggregateContext) : current;
    const statuses = linkedTo(deps.urlOf(commit.commit), own);
    // The report of that pull request queues this job again once it is closed.
    const isWithheld = statuses.length < current.length;
    try {
      await writeStatuses({ forge, reports }, commit, statuses, signal);
    } finally {
      await recordRollout(commit, () => restOfStatuses(commit.commit, followers, current, applied?.lines));
    }
    await deps.writeEnvironments(forge, commit, () => findFollowing().map(toFollower), signal);
    const isOpen = isWithheld || applied?.isOpen || statuses.some(({ state }) => state === "pending");
    if (!isOpen) await setUnsettled(commit, repos, false);
    return applied?.again ?? { kind: "done" };
  }

  async function setUnsettled(commit: CommitKey, repos: readonly RepoId[], unsettled: boolean): Promise<void> {
    await Promise.all(repos.map((repo) => reports.setUnsettled(commit, repo, unsettled)));
  }

  /** The comment of a merged pull request shows what became of its merge. */
  async function recordRollout(commit: CommitKey, findRest: () => RolloutRest | undefined): Promise<void> {
    const merged = await reports.mergedAs(commit);
    if (merged.length === 0) return;
    const rest = findRest();
    if (!isDeepStrictEqual(rest, await reports.rolloutRest(commit))) await reports.setRolloutRest(commit, rest);
    const written = await reports.statuses(commit);
    const behind = merged.filter(
      ({ rollout, rolloutRest }) =>
        followRollout(rollout, written, 0) !== rollout || !isDeepStrictEqual(rolloutRest, rest),
    );
    await deps.queue.enqueue(behind.map(({ pullRequest }) => ({ kind: "report", pullRequest })));
  }

  /** Reads each remote once for all deployments that share a login; usually their own jobs have read it already. */
  async function readHeads(following: readonly GitDeployment[], signal?: AbortSignal) {
    const byLogin = new Map<string, Promise<Heads | undefined>>();
    for (const deployment of following) {
      const login = loginKey(deployment);
      if (!byLogin.has(login)) byLogin.set(login, read(deployment, signal));
    }
    const found = await Promise.all([...byLogin].map(async ([login, answer]) => [login, await answer] as const));
    const heads = new Map(found);
    return (deployment: GitDeployment): Follower => {
      const known = heads.get(loginKey(deployment));
      const { ref } = deployment.spec.source;
      return { deployment, head: known && commitOf(ref, known), ref: refName(ref, known ?? {}) };
    };
  }

  /** `undefined` if it cannot be read. Throws a RemoteBusyError: a slow host must not occupy the workers for all hosts. */
  async function read(deployment: GitDeployment, signal?: AbortSignal): Promise<Heads | undefined> {
    const since = await deps.lastMove(deployment.repo);
    try {
      const credentials = await readGitCredentials(deployment, deps.secrets);
      const repository = { url: deployment.spec.source.url, credentials };
      return await deps.sources.heads(repository, since === undefined ? undefined : { since }, signal, {
        leaves: true,
      });
    } catch (error) {
      if (error instanceof RemoteBusyError) throw error;
      log.debug({ ...deployment.key, error: (error as Error).message }, "could not read its remote");
      return undefined;
    }
  }
}
