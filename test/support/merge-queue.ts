/**
 * The merge queue of the local GitHub: creates the commits in the real repository and sends the same deliveries as
 * GitHub.
 */
import { type DeliveredGroup, githubMergeGroup, githubQueuePush } from "./deliveries.ts";
import { type LocalGithub, type LocalPullRequest, type LocalPullRequests, wordOf } from "./local-hosts.ts";

export interface QueuedGroup extends DeliveredGroup {
  /** As the host shows them: `state: description`, by context. */
  statuses(): Record<string, string>;
  /** The states of all statuses and check runs ever written: each in order. */
  writes(): readonly string[];
  /** Sends the merge group event that Apps receive. `claimed` replaces fields of the delivery with false ones. */
  tell(action: "checks_requested" | "destroyed", claimed?: Partial<DeliveredGroup>): Promise<void>;
  /** Sends the push event that every webhook receives. */
  tellByPush(ended?: boolean): Promise<void>;
  /** Removes the queue's branch. */
  drop(): Promise<void>;
  /** Moves `main` to the group's commit, as the queue does when all checks have passed. */
  merge(): Promise<void>;
}

export function useMergeQueue(pulls: LocalPullRequests, { host, statuses }: LocalGithub) {
  const { repo, repository, deliver } = pulls;
  const hosted = host.repository;

  return {
    /** Makes a group of the pull request, on `main` or on the group ahead. Delivers nothing yet. */
    async make(
      { number, branch }: Pick<LocalPullRequest, "number" | "branch">,
      ahead?: QueuedGroup,
    ): Promise<QueuedGroup> {
      const base = ahead?.commit ?? (await repo.git("rev-parse", "main"));
      await repo.git("checkout", "--quiet", "--detach", base);
      await repo.git("merge", "--quiet", "--no-ff", "-m", `Merge pull request #${number}`, branch);
      const commit = await repo.git("rev-parse", "HEAD");
      const ref = `refs/heads/gh-readonly-queue/main/pr-${number}-${base}`;
      await repo.git("push", "--quiet", "origin", `${commit}:${ref}`);
      hosted.commits.add(commit);
      const group = { ref, commit, base };
      const isIts = ({ sha }: { readonly sha: string }) => sha === commit;
      return {
        ...group,
        statuses: () => statuses(commit),
        writes: () => [
          ...hosted.statuses.filter(isIts).map(({ state }) => state),
          ...hosted.checkRuns.filter(isIts).map(wordOf),
        ],
        tell: (action, claimed) => deliver(githubMergeGroup(action, repository, { ...group, ...claimed })),
        tellByPush: (ended) => deliver(githubQueuePush(repository, group, ended)),
        drop: async () => void (await repo.git("push", "--quiet", "origin", `:${ref}`)),
        async merge() {
          const before = await repo.git("rev-parse", "main");
          await repo.git("checkout", "--quiet", "-B", "main", commit);
          await repo.git("push", "--quiet", "origin", "main", `:${ref}`);
          hosted.merge(number);
          await deliver(githubMergeGroup("destroyed", repository, group));
          await pulls.tellMain(before, (await repo.git("diff", "--name-only", before, "main")).split("\n"));
        },
      };
    },
  };
}
