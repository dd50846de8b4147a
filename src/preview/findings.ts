/** What is known of a pull request so far, and how it becomes a report. Pure. */
import { describeIgnored } from "../intake/match.ts";
import type { Ignored } from "../model/receipt.ts";
import type { GitDeployment, PullRequest } from "../model.ts";
import type { Preview, Report } from "../model/report.ts";
import { earlierHeads, restarts } from "./previous.ts";
import { cut, makeVisible } from "./visible-text.ts";

export interface Findings {
  base?: string | undefined;
  obstacle?: Report["obstacle"];
  mendable?: boolean;
  previews: readonly Preview[];
  ignored: readonly Ignored[];
  /** What must not appear in any message. */
  secrets: readonly string[];
}

export interface Subject {
  readonly pullRequest: PullRequest;
  readonly previous: Report | undefined;
  readonly deployments: readonly GitDeployment[];
}

const longestTitle = 200;

/** Without `finishedAt` the work is still in progress. */
export function toReport(
  { pullRequest, previous, deployments }: Subject,
  { base, obstacle, mendable, previews }: Findings,
  { startedAt, finishedAt }: { startedAt: number; finishedAt?: number },
): Report {
  const { key, url, head, baseBranch, title, author, createdAt } = pullRequest;
  return {
    v: 1,
    pullRequest: key,
    url,
    title: title && cut(makeVisible(title.replaceAll(/\s+/g, " ").trim()), longestTitle),
    author,
    openedAt: createdAt,
    repo: deployments[0]?.repo,
    baseBranch,
    head,
    base,
    state: finishedAt === undefined ? "working" : "done",
    obstacle,
    mendable,
    previews: [...previews],
    earlierHeads: earlierHeads(previous, head),
    restarts: restarts(previous, pullRequest, base, startedAt),
    startedAt,
    finishedAt,
  };
}

export function describeFindings({ base, obstacle, previews, ignored }: Findings) {
  return {
    base,
    obstacle: obstacle?.kind,
    previews: previews.length,
    failed: previews.filter(({ state }) => state === "failed").length,
    ...describeIgnored(ignored),
  };
}
