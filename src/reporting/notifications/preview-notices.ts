/** Pull requests whose preview failed, from their reports. */
import { compareText } from "../../kit/compare-text.ts";
import { type AnyDeployment, followsGit, keyText, type NoticeLine, type RepoId } from "../../model.ts";
import { isForeign, isOpen, nameOfPreview, type Report } from "../../model/report.ts";
import type { Reports } from "../../ports.ts";
import { describeReport } from "../../preview/summary.ts";
import { sumOf } from "../statuses.ts";
import type { Notice } from "./notices.ts";

/** More open pull requests than this are not looked at. */
const mostReports = 500;

/** One for each pull request with a report, about the deployments that it concerns: most of them are over. */
export async function findFailedPreviews(
  reports: Pick<Reports, "find"> & { open(repo: RepoId): Promise<readonly Pick<Report, "pullRequest">[]> },
  all: readonly AnyDeployment[],
): Promise<readonly Notice[]> {
  const repos = [...new Set(all.flatMap((deployment) => (followsGit(deployment) ? [deployment.repo] : [])))];
  const open = await Promise.all(repos.map(async (repo) => ({ repo, open: await reports.open(repo) })));
  const few = open.flatMap(({ repo, open }) => open.map((one) => ({ repo, ...one }))).slice(0, mostReports);
  const found = await Promise.all(
    few.map(async ({ repo, pullRequest }) => ({ repo, report: await reports.find(pullRequest) })),
  );
  return found.flatMap(({ repo, report }) => {
    if (report === undefined || isForeign(report)) return [];
    const names = new Set(report.previews.map(nameOfPreview));
    // Naming a repository is not enough: only who was able to deploy from it hears of its pull requests.
    const following = all.filter(
      (one) => followsGit(one) && one.repo === repo && one.status.lastDeployResult !== undefined,
    );
    // One that could not be merged or read has no previews: it concerns whoever follows the repository.
    return [toNotice(report, names.size === 0 ? following : following.filter(({ key }) => names.has(keyText(key))))];
  });
}

/** While it is made again, nobody knows whether it still fails. */
function stateOf(report: Report): Notice["state"] {
  if (!isOpen(report)) return "over";
  if (report.state === "working") return "progress";
  return sumOf(report, false) === "failure" ? "open" : "over";
}

function toNotice(report: Report, deployments: readonly AnyDeployment[]): Notice {
  const { pullRequest, previews, url, title = "" } = report;
  const name = `${pullRequest.repoName}#${pullRequest.number}`;
  const lines = previews
    .filter(({ state, counts }) => state === "failed" || counts.errors > 0)
    .map((preview): NoticeLine => ({ name: nameOfPreview(preview), state: "failed", text: "would fail" }))
    .toSorted((a, b) => compareText(a.name, b.name));
  return {
    ...{ subject: `preview ${pullRequest.forge}:${name}`, kind: "preview", settled: report.state !== "working", url },
    state: stateOf(report),
    events: new Set(["preview"]),
    about: name,
    lines: [{ name: title || name, state: "failed", text: describeReport(report) }, ...lines],
    unchanged: 0,
    deployments,
    members: [],
  };
}
