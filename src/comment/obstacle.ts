/** Explains why nothing was compared. */
import { pullRequestText } from "../model.ts";
import type { Report } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { cutLines } from "./lines.ts";
import { code, fence, markdown, type Markup, toLines } from "./text.ts";

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
function howToAllow(report: Pick<Report, "pullRequest" | "head">, { code }: Markup): string {
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
    case "no-branch":
      return explainOrigin(obstacle, report, markdown).join("\n\n");
    case "conflict":
      return [describeConflict(obstacle), listPaths(obstacle.paths, room)].join("\n\n");
    case "failed":
      return fence(cutLines(toLines(obstacle.message), room - 200).lines);
  }
}

type Origin = Extract<NonNullable<Report["obstacle"]>, { readonly kind: "fork" | "no-branch" }>;

/** Explains in paragraphs why commits from there are not rendered, and what the author can do. */
export function explainOrigin(
  origin: Origin,
  report: Pick<Report, "pullRequest" | "head">,
  markup: Markup,
): readonly string[] {
  if (origin.kind === "no-branch") return [`${whyBranches} ${onNoBranch}`];
  const { agit, why } = origin;
  return [
    `${whyBranches} ${agit ? markup.sentence(pushedForReview) : fromFork}`,
    ...(why ? [`${markup.sentence(why)}.`] : []),
    howToAllow(report, markup),
  ];
}

export function describeConflict({ paths }: { readonly paths: readonly string[] }): string {
  return `Conflict in ${plural(paths.length, "file")}:`;
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
