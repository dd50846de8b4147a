/** What is known of a pull request so far, and how it becomes a report. Pure. */
import { describeIgnored } from "../intake/match.ts";
import type { Ignored } from "../model/receipt.ts";
import type { DeploymentManifests } from "../model/manifests.ts";
import type { PreviewCause, PullRequest, RepoId } from "../model.ts";
import type { ChildPreviews, Preview, Report } from "../model/report.ts";
import { earlierHeads, earlierPreviews, latestResult, restarts } from "./previous.ts";
import { cut, cutLine, makeVisible } from "./visible-text.ts";

export interface Findings {
  base?: string | undefined;
  obstacle?: Report["obstacle"];
  mendable?: boolean;
  previews: readonly Preview[];
  /** Of what Flux applies. */
  flux?: readonly Preview[] | undefined;
  ignored: readonly Ignored[];
  /** See MatchedConsumers. */
  unshown?: readonly Ignored[];
  /** How many more deployments include the repository than are previewed. */
  beyond?: number;
  children?: ChildPreviews | undefined;
  /** Of the compared deployments, if they are wanted. */
  manifests?: readonly DeploymentManifests[] | undefined;
  /** What must not appear in any message. */
  secrets: readonly string[];
}

export interface Subject {
  readonly pullRequest: PullRequest;
  readonly previous: Report | undefined;
  /** The identity of its repository, as deployments know it. */
  readonly repo: RepoId | undefined;
  readonly cause?: PreviewCause | undefined;
}

const longestTitle = 200;
/** Kubernetes allows 253 characters for a name, and 63 for a namespace. */
const longestName = 340;
const longestReason = 500;
/** Each has a line in the comment. */
const mostUnshown = 10;

/** Names and reasons may quote what a branch contains. */
function toLine({ deployment, reason }: Ignored): Ignored {
  const line = (text: string) => makeVisible(text.replaceAll(/\s+/g, " ").trim());
  return { deployment: cut(line(deployment), longestName), reason: cutLine(line(reason), longestReason) };
}

/** Without `finishedAt` the work is still in progress. */
export function toReport(
  { pullRequest, previous, repo, cause }: Subject,
  { base, obstacle, mendable, previews, flux = [], unshown = [], beyond = 0, children }: Findings,
  { startedAt, finishedAt }: { startedAt: number; finishedAt?: number },
): Report {
  const rest = beyond + Math.max(0, unshown.length - mostUnshown);
  const { key, url, head, baseBranch, title, author, createdAt } = pullRequest;
  return {
    v: 1,
    pullRequest: key,
    url,
    title: title && cut(makeVisible(title.replaceAll(/\s+/g, " ").trim()), longestTitle),
    author,
    openedAt: createdAt,
    repo,
    baseBranch,
    head,
    base,
    state: finishedAt === undefined ? "working" : "done",
    obstacle,
    mendable,
    previews: [...previews, ...flux],
    ...(unshown.length > 0 && { unshown: unshown.slice(0, mostUnshown).map(toLine) }),
    ...(rest > 0 && { beyond: rest }),
    ...(children && { children: { ...children, previews: [...children.previews] } }),
    earlierHeads: earlierHeads(previous, head),
    earlierPreviews: earlierPreviews(previous, head),
    latest: finishedAt === undefined ? latestResult(previous, cause) : undefined,
    restarts: restarts(previous, pullRequest, base, startedAt),
    startedAt,
    finishedAt,
  };
}

export function describeFindings({ base, obstacle, flux = [], ignored, ...own }: Findings) {
  const previews = [...own.previews, ...flux];
  return {
    base,
    obstacle: obstacle?.kind,
    previews: previews.length,
    failed: previews.filter(({ state }) => state === "failed").length,
    ...describeIgnored(ignored),
  };
}
