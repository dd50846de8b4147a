/**
 * Finds the pull requests whose head is, or once was, a given commit: they show where the commit is while it is not
 * merged.
 */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import { type PullRequestKey, pullRequestText, type RepoId } from "../model.ts";
import type { TracedPullRequest } from "../views/trace.ts";
import { isOpen, nameOfPreview, type Report } from "../model/report.ts";
import { describePreview, describeReport } from "./summary.ts";

export interface ProposalsDeps {
  /** Returns the known open pull requests into a repository. */
  readonly open: (repo: RepoId) => Promise<readonly { readonly pullRequest: PullRequestKey; readonly head: string }[]>;
  readonly find: (key: PullRequestKey) => Promise<Report | undefined>;
}

export interface ProposalsQuery {
  /** The beginning of a hash, in lower case. */
  readonly commit: string;
  readonly repos: readonly RepoId[];
  /** All stored deliveries: they include closed pull requests and earlier heads. */
  readonly deliveries: readonly DeliveryRecord[];
}

interface Proposed {
  readonly key: PullRequestKey;
  readonly head: string;
  /** From the last delivery about it, if there is one. */
  readonly reason?: string | undefined;
}

/** Open pull requests come first. */
export async function findProposals(
  { open, find }: ProposalsDeps,
  { commit, repos, deliveries }: ProposalsQuery,
): Promise<readonly TracedPullRequest[]> {
  const known = (await Promise.all([...new Set(repos)].map(open))).flat();
  const proposed: Proposed[] = [
    ...deliveries.toSorted((a, b) => a.at - b.at).flatMap(pullRequestOf),
    ...known.map(({ pullRequest, head }) => ({ key: pullRequest, head })),
  ];
  const isPushed = deliveries.some(
    ({ event, commit: last, others = [] }) =>
      event === "push" && [last, ...others].some((pushed) => pushed?.startsWith(commit)),
  );
  const byName = new Map(
    proposed.filter(({ head }) => head.startsWith(commit)).map((one) => [pullRequestText(one.key), one]),
  );
  const found = await Promise.all(
    [...byName.values()].map(async (one) => toProposal(one, await find(one.key), { commit, isPushed })),
  );
  return found.toSorted((a, b) => Number(isOver(a)) - Number(isOver(b)));
}

function pullRequestOf({ event, forge, repoName, pullRequest, commit, reason }: DeliveryRecord): Proposed[] {
  if (event !== "pull-request" || !repoName || !pullRequest || !commit) return [];
  return [{ key: { forge, repoName, number: pullRequest }, head: commit, reason }];
}

/** `isPushed`: a stored delivery shows that the commit was pushed to some branch. */
function toProposal(
  { key, head, reason }: Proposed,
  report: Report | undefined,
  { commit, isPushed }: { readonly commit: string; readonly isPushed: boolean },
): TracedPullRequest {
  const about =
    report === undefined
      ? {
          name: pullRequestText(key),
          head,
          state: "unknown" as const,
          verdict: reason ?? "not previewed, or not yet",
          previews: [],
        }
      : describeProposal(report);
  const isHead = about.head.startsWith(commit);
  const proposal = { ...about, isHead, words: wordsFor({ ...about, isHead }, isPushed) };
  // What a merge would have changed is irrelevant once the pull request is closed.
  return isOver(about) ? { ...proposal, verdict: "", previews: [] } : proposal;
}

function wordsFor(
  { name, baseBranch, head, isHead, state, mergeCommit }: Omit<TracedPullRequest, "words">,
  isPushed: boolean,
): string {
  const into = baseBranch === undefined ? "" : ` into ${baseBranch}`;
  if (state === "unknown") return `It was reported as the head of pull request ${name}${into}.`;
  if (state === "merged" && mergeCommit !== undefined && mergeCommit !== head) {
    return `It was the head of pull request ${name}${into}, which has been merged as ${mergeCommit.slice(0, 10)}: that commit is the one to trace.`;
  }
  if (state === "merged") {
    const elsewhere = isPushed ? "" : "; after a squash or a rebase, its changes are in another commit";
    return `It was the head of pull request ${name}${into}, which has been merged${elsewhere}.`;
  }
  if (state === "closed") return `It was the head of pull request ${name}${into}, which was closed without merging.`;
  if (!isHead) return `It was the head of pull request ${name}${into}, which is at ${head.slice(0, 7)} now.`;
  return `It is the head of pull request ${name}${into} and is not deployed before it is merged.`;
}

/** The short form of a preview's result. */
export function describeProposal(report: Report) {
  const { pullRequest, url, baseBranch, head, state, mergeCommit, previews } = report;
  return {
    name: pullRequestText(pullRequest),
    // The URL comes from the git host: a link must never be a program.
    url: /^https?:\/\//i.test(url) ? url : undefined,
    baseBranch,
    head,
    state,
    ...(mergeCommit && { mergeCommit }),
    verdict: describeReport(report),
    previews: previews.map((preview) => ({
      deployment: nameOfPreview(preview),
      ...(preview.kind && { kind: preview.kind }),
      verdict: describePreview(preview),
    })),
  };
}

function isOver({ state }: Pick<TracedPullRequest, "state">): boolean {
  return state !== "unknown" && !isOpen({ state });
}
