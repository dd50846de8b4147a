/** Finds the open pull requests that are rendered with what was pushed, although it is not their own repository. */
import { distinct } from "./requested.ts";
import { type Deployment, keyText, type PullRequestKey } from "../model.ts";
import { isInto, mayShow } from "../model/open-report.ts";
import type { Reports } from "../ports.ts";
import { branchesShowing } from "../preview/match-consumers.ts";

/**
 * Those that show one of the deployments whose projects include it. A deployment that is suspended, or waits for approval, does not
 * deploy the push: then nothing else would announce the change.
 */
export async function findRendered(
  rendering: readonly Deployment[],
  reports: Pick<Reports, "open">,
): Promise<readonly PullRequestKey[]> {
  const repos = distinct(rendering.flatMap((one) => branchesShowing(one).map(({ repo }) => repo)));
  const open = new Map(await Promise.all(repos.map(async (repo) => [repo, await reports.open(repo)] as const)));
  const showing = rendering.flatMap((one) =>
    branchesShowing(one).flatMap(({ repo, branch }) =>
      (open.get(repo) ?? []).filter((report) => isInto(report, branch) && mayShow(report, keyText(one.key))),
    ),
  );
  return distinct(showing).map(({ pullRequest }) => pullRequest);
}
