/** Requests to report what became of the commits of a repository. */
import type { CommitStatusRequest, RepoId } from "../model.ts";
import type { Forge, Reports } from "../ports.ts";

/** To each forge that hosts the repository. */
export function commitRequests(
  forges: ReadonlyMap<string, Pick<Forge, "id" | "repoName">>,
  repo: RepoId,
  commit: string,
): CommitStatusRequest[] {
  return [...forges.values()].flatMap((forge): CommitStatusRequest[] => {
    const repoName = forge.repoName(repo);
    return repoName === undefined
      ? []
      : [{ kind: "commit-status", commit: { forge: forge.id, repoName, commit }, repo }];
  });
}

/** The commits of the repository that lack their final status, also those that a stopped server left pending. */
export async function unsettledRequests(
  forges: { has(id: string): boolean },
  reports: Pick<Reports, "unsettled">,
  repo: RepoId,
): Promise<CommitStatusRequest[]> {
  const commits = await reports.unsettled(repo);
  return commits.filter(({ forge }) => forges.has(forge)).map((commit) => ({ kind: "commit-status", commit, repo }));
}
