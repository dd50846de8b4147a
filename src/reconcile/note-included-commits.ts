/**
 * Wraps reconciliations: records which commits of included branches and tags are rendered at least, for the sweep and for the
 * pull requests of these repositories. kluctl does not report them. It asks git in each run, so that what git had before is a
 * lower bound.
 */
import { readGitCredentials } from "../access/credentials.ts";
import type { Interceptor } from "../kit/around.ts";
import { withTimeout } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";
import { annotation, type Deployment, type RepoId } from "../model.ts";
import { formatIncludedCommits, type IncludedCommit, mostIncludedCommits } from "../model/included-commits.ts";
import { type Include, parseIncludes } from "../model/includes.ts";
import { repoId } from "../model/repo-url.ts";
import type { Deployments, Queue, Secrets, Sources } from "../ports.ts";
import { shownIncludesOf } from "../preview/match-consumers.ts";
import type { Parts } from "./parts.ts";
import type { Work } from "./work.ts";

export interface NoteIncludedCommitsDeps {
  readonly deployments: Pick<Deployments, "setAnnotation">;
  readonly queue: Pick<Queue, "lastMove">;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly log: Logger;
}

/** Nothing is deployed before git has answered, and kluctl needs the same answer next. */
const answersWithinMs = 5_000;
/**
 * An older answer is only a weaker bound, unless a push was announced since. For what no pull request shows, the sweep's last
 * answer is recent enough: if it is too old, the sweep requests one more reconciliation.
 */
const maxAgeMs = { shown: 30_000, others: 5 * 60_000 };

interface RecordedInclude extends Include {
  readonly repo: RepoId;
  readonly maxAgeMs: number;
}

export function notesIncludedCommits(deps: NoteIncludedCommitsDeps): Interceptor<Parts> {
  return {
    async settleProject(next, work, project) {
      const { deployment, asked } = work;
      // Working copies of users, in place of what is included, have no commit.
      const isOwn = asked?.overridesPatch === undefined && deployment.spec.sourceOverrides.length === 0;
      const commits = isOwn ? await findCommits(deployment, work) : undefined;
      try {
        return await next(work, project);
      } finally {
        // Also if it failed: that is what failed. Before the status, which says until then that it is in progress.
        if (commits !== undefined) await record(commits, work);
      }
    },
  };

  /** `undefined`: git did not answer. */
  async function findCommits(deployment: Deployment, { signal, log }: Work): Promise<IncludedCommit[] | undefined> {
    const includes = movingIncludesOf(deployment).slice(0, mostIncludedCommits);
    if (includes.length === 0) return [];
    const inTime = withTimeout(answersWithinMs, signal);
    try {
      const credentials = await readGitCredentials(deployment, deps.secrets);
      const found = includes.map(async ({ url, repo, refs, maxAgeMs }): Promise<IncludedCommit[]> => {
        const since = await deps.queue.lastMove(repo);
        const heads = await deps.sources.heads({ url, credentials }, { since, maxAgeMs }, inTime, { leaves: true });
        const names = refs.length > 0 ? refs : [heads.defaultRef ?? ""];
        return names.flatMap((ref) => {
          const commit = isMoving(ref) ? heads.commits.get(ref) : undefined;
          return commit === undefined ? [] : [{ url, ref, commit }];
        });
      });
      return (await Promise.all(found)).flat();
    } catch (error) {
      if (!signal.aborted) log.debug({ error: (error as Error).message }, "could not read the commits of its includes");
      return undefined;
    }
  }

  /**
   * Without the record, the comment of a merged pull request says that the merge is not deployed yet, and a push without a
   * webhook is found at the interval.
   */
  async function record(commits: readonly IncludedCommit[], { deployment, signal, held }: Work): Promise<void> {
    const text = formatIncludedCommits(commits);
    if (text === deployment.annotations[annotation.includedCommits] || signal.aborted || held.lost.aborted) return;
    try {
      await deps.deployments.setAnnotation(deployment, annotation.includedCommits, text);
    } catch (error) {
      if (signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      deps.log.warn({ ...deployment.key, error: why }, "could not record the commits of what the project includes");
    }
  }
}

/** Those that pull requests show come first: their records are read by people. */
function movingIncludesOf(deployment: Deployment): readonly RecordedInclude[] {
  const shown = shownIncludesOf(deployment);
  const others = parseIncludes(deployment.annotations[annotation.includes])
    .filter(({ refs }) => refs.length === 0 || refs.some(isMoving))
    .flatMap((include) => {
      const repo = repoId(include.url);
      const isShown = shown.some(({ url, refs }) => url === include.url && refs.join() === include.refs.join());
      return repo === undefined || isShown ? [] : [{ ...include, repo, maxAgeMs: maxAgeMs.others }];
    });
  return [...shown.map((include) => ({ ...include, maxAgeMs: maxAgeMs.shown })), ...others];
}

/** Not a commit that it is pinned to. */
function isMoving(ref: string): boolean {
  return ref.startsWith("refs/heads/") || ref.startsWith("refs/tags/");
}
