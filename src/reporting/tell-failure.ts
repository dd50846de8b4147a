/** Tells the author of a pull request that its rollout fails. */
import { failureMark, renderFailure } from "../comment/rollout.ts";
import { includedCommitsOf } from "../model/included-commits.ts";
import { failedIn, type Report, type RolloutLine, rolloutNameOf } from "../model/report.ts";
import type { Clock, Deployments, FluxDeployments, Forge, Reports } from "../ports.ts";
import { readyCondition } from "../reconcile/status/conditions.ts";
import type { Followed } from "./follow-merge.ts";

interface TellFailureDeps {
  readonly deployments: Pick<Deployments, "get">;
  /** Absent: what Flux applies is not looked at. */
  readonly fluxDeployments?: Pick<FluxDeployments, "read"> | undefined;
  readonly reports: Pick<Reports, "save">;
  readonly clock: Clock;
}

/** For this long, a failed rollout is not the author's concern: retries are under way, or pods are starting. */
const recoversWithinMs = 5 * 60_000;
/** A request that arrives while this job runs waits as long as the job is put off: the comment must not stand still. */
const lookAgainMs = 15_000;

export function createTellFailure(deps: TellFailureDeps) {
  /**
   * Tells the author, once for each pull request, that the rollout fails and does not recover by itself. Returns the report as
   * it is stored then, and when to look again: many failures end with the next retry, or when the objects are ready.
   */
  return async function tellFailure(
    forge: Pick<Forge, "ownComments" | "createComment">,
    report: Report,
    url: string | undefined,
    signal?: AbortSignal,
  ): Promise<Followed> {
    const { author, failureTold, pullRequest } = report;
    if (author === undefined || failureTold || report.state !== "merged") return { report };
    const now = deps.clock.now();
    const failed = failedIn(report, now - recoversWithinMs);
    if (failed.length === 0) {
      const [first = Infinity] = failedIn(report, now)
        .map(({ failingSince = Infinity }) => failingSince)
        .toSorted();
      if (!Number.isFinite(first)) return { report };
      return { report, againMs: Math.min(Math.max(first + recoversWithinMs - now, 1_000), lookAgainMs) };
    }
    const still = await Promise.all(failed.map((line) => stillFails(line, report, signal)));
    if (!still.includes(true)) return { report };
    // A crash may have kept an earlier job from recording it.
    const mark = failureMark(report);
    const isThere = (await forge.ownComments(pullRequest, signal)).some(({ body }) => body.includes(mark));
    if (!isThere)
      await forge.createComment(
        pullRequest,
        renderFailure(
          report,
          failed.filter((_, at) => still[at]),
          url,
        ),
        signal,
      );
    const told = { ...report, failureTold: true };
    await deps.reports.save(told);
    return { report: told };
  };

  /** A newer commit, or a change of the resource, may have mended it: the statuses of the merge do not say so. */
  async function stillFails(
    { deployment, includes }: RolloutLine,
    { previews, mergeCommit }: Report,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const shown = previews.find((preview) => rolloutNameOf(preview) === deployment);
    if (shown?.kind !== undefined) {
      const applied = await deps.fluxDeployments?.read({ kind: shown.kind, key: shown.deployment }, signal);
      return applied?.ready?.status === "False" && (applied.attempting ?? applied.attempted) === mergeCommit;
    }
    const now = shown && (await deps.deployments.get(shown.deployment));
    if (now === undefined || readyCondition(now.status)?.status !== "False") return false;
    return includes
      ? includedCommitsOf(now).some(({ commit }) => commit === mergeCommit)
      : now.status.observedCommit === mergeCommit;
  }
}
