/** Updates a pushed commit's statuses to the current state of its deployments. */
import { commitOf, refName } from "../model/git-ref.ts";
import type { Logger } from "../log.ts";
import type { CommitKey, Freshness, CommitStatusRequest, GitDeployment, Heads, Outcome, RepoId } from "../model.ts";
import { toForgeOutcome } from "../preview/forge-outcome.ts";
import type { Deployments, Forge, Queue, Reports, Secrets, Sources } from "../ports.ts";
import { loginKey, readGitCredentials } from "../access/credentials.ts";
import { deployStatuses, type Follower } from "./deploy-statuses.ts";
import type { WriteEnvironments } from "./environments/write-environments.ts";
import type { FluxStatuses } from "./flux-statuses.ts";
import { followRollout } from "./rollout.ts";
import { aggregateContext, isPreviewLine } from "./statuses.ts";
import { writeStatuses } from "./write-statuses.ts";

export interface CommitStatusWriterDeps {
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Pick<Reports, "statuses" | "saveStatuses" | "reruns" | "setUnsettled" | "proposing" | "mergedAs">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly deployments: Pick<Deployments, "tracking"> & { synced(): boolean };
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly lastMove: Queue["lastMove"];
  readonly writeEnvironments: WriteEnvironments;
  /** Absent: nothing is reported of what Flux applies. */
  readonly flux?: FluxStatuses | undefined;
  readonly log: Logger;
}

const notSyncedMs = 1_000;

export function createCommitStatusWriter(deps: CommitStatusWriterDeps) {
  const { forges, reports, deployments, log } = deps;

  return async function writeCommitStatus(request: CommitStatusRequest, signal?: AbortSignal): Promise<Outcome> {
    const { commit, repo } = request;
    const forge = forges.get(commit.forge);
    if (forge === undefined) return { kind: "skipped", why: "the forge is no longer configured" };
    // Deployments that are not loaded yet would appear to follow something else.
    if (!deployments.synced() || deps.flux?.isReady(repo) === false) {
      return { kind: "later", afterMs: notSyncedMs, why: "the deployments are not loaded yet" };
    }
    // Before anything is read: a deployment that ends while git is asked then queues this job again.
    await reports.setUnsettled(commit, repo, true);
    const following = deployments.tracking(repo).filter(({ spec }) => spec.source.ref.commit === undefined);
    const toFollower = await readHeads(repo, following, signal);
    const followers = following.map(toFollower);
    const written = (await reports.statuses(commit)).filter((line) => !isPreviewLine(line));
    const applied = await deps.flux?.of(request, written, signal);
    const current = deployStatuses(commit.commit, followers, written, applied?.lines);
    if (applied?.isUncertain && current.every(({ context }) => context === aggregateContext)) {
      // Perhaps it is none of ours.
      if (written.length === 0 && !applied.isOpen) await reports.setUnsettled(commit, repo, false);
      return applied.again ?? { kind: "done" };
    }
    // While a pull request proposes the commit, the summary belongs to the pull request: a check may depend on it.
    const proposed = (await reports.proposing(repo, commit.commit)).length > 0;
    const statuses = proposed ? current.filter(({ context }) => context !== aggregateContext) : current;
    const unsettled = applied?.isOpen || statuses.some(({ state }) => state === "pending");
    try {
      try {
        await writeStatuses({ forge, reports }, commit, statuses, signal);
      } finally {
        await recordRollout(commit);
      }
      await deps.writeEnvironments(forge, commit, followers, signal);
      if (!unsettled) await reports.setUnsettled(commit, repo, false);
      return applied?.again ?? { kind: "done" };
    } catch (error) {
      const outcome = toForgeOutcome(error);
      if (outcome.kind === "failed") {
        log.warn({ ...commit, error: outcome.message }, "forge rejected a commit status");
      }
      return outcome;
    }
  };

  /** The comment of a merged pull request shows what became of its merge. */
  async function recordRollout(commit: CommitKey): Promise<void> {
    const merged = await reports.mergedAs(commit);
    if (merged.length === 0) return;
    const written = await reports.statuses(commit);
    const behind = merged.filter(({ rollout }) => followRollout(rollout, written, 0) !== rollout);
    await deps.queue.enqueue(behind.map(({ pullRequest }) => ({ kind: "report", pullRequest })));
  }

  /** Reads the remote once for all deployments that share a login; usually their own jobs have read it already. */
  async function readHeads(repo: RepoId, following: readonly GitDeployment[], signal?: AbortSignal) {
    const since = await deps.lastMove(repo);
    const freshness = since === undefined ? undefined : { since };
    const byLogin = new Map<string, Promise<Heads | undefined>>();
    for (const deployment of following) {
      const login = loginKey(deployment);
      if (!byLogin.has(login)) byLogin.set(login, read(deployment, freshness, signal));
    }
    const heads = new Map<string, Heads | undefined>();
    for (const [login, found] of byLogin) heads.set(login, await found);
    return (deployment: GitDeployment): Follower => {
      const found = heads.get(loginKey(deployment));
      const { ref } = deployment.spec.source;
      return { deployment, head: found && commitOf(ref, found), ref: refName(ref, found ?? {}) };
    };
  }

  async function read(deployment: GitDeployment, freshness: Freshness | undefined, signal?: AbortSignal) {
    try {
      const credentials = await readGitCredentials(deployment, deps.secrets);
      return await deps.sources.heads({ url: deployment.spec.source.url, credentials }, freshness, signal);
    } catch (error) {
      log.debug({ ...deployment.key, error: (error as Error).message }, "could not read its remote");
      return undefined;
    }
  }
}
