/** Explains why nothing was compared. */
import { pullRequestText } from "../model.ts";
import type { Report } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { cutLines } from "./lines.ts";
import { code, fence, toLines } from "./text.ts";

const mostPaths = 30;

const whyBranches =
  "Rendering a project runs its code with the deployment's read access. Towline therefore renders only branches of this " +
  "repository:";
const fromFork = "a user with write access can push this branch to it.";
const pushedForReview =
  "a push to `refs/for/…` opens a pull request without a branch, and anyone who can read the repository can do that. A user " +
  "with write access can push these commits to a branch and open the pull request from it.";
const onNoBranch =
  "none of them points at the head of this pull request now. Its branch was deleted or has moved, or only a merge queue " +
  "has the commit. A user with write access can push the branch again.";

/** Commits are allowed in the server's cluster, never by text in the pull request. */
function howToAllow(report: Pick<Report, "pullRequest" | "head">): string {
  return `Alternatively, ask a user who may change the KluctlDeployments in the cluster to review this commit and run ${code(commandToAllow(report))}`;
}

export function commandToAllow({ pullRequest, head }: Pick<Report, "pullRequest" | "head">): string {
  return `towline preview --allow ${pullRequestText(pullRequest)} ${head}`;
}

export function renderObstacle(
  obstacle: NonNullable<Report["obstacle"]>,
  report: Pick<Report, "pullRequest" | "head">,
  room: number,
): string {
  switch (obstacle.kind) {
    case "fork":
      return [
        `${whyBranches} ${obstacle.agit ? pushedForReview : fromFork}`,
        obstacle.why && `${obstacle.why}.`,
        howToAllow(report),
      ]
        .filter(Boolean)
        .join("\n\n");
    case "no-branch":
      return `${whyBranches} ${onNoBranch}`;
    case "conflict":
      return [`Conflict in ${plural(obstacle.paths.length, "file")}:`, listPaths(obstacle.paths, room)].join("\n\n");
    case "failed":
      return fence(cutLines(toLines(obstacle.message), room - 200).lines);
  }
}

function listPaths(paths: readonly string[], room: number): string {
  const items: string[] = [];
  let used = 200;
  for (const path of paths.slice(0, mostPaths)) {
    const item = `- ${code(path)}`;
    used += item.length + 1;
    if (used > room) break;
    items.push(item);
  }
  if (paths.length > items.length) items.push(`- … and ${plural(paths.length - items.length, "more file")}`);
  return items.join("\n");
}
