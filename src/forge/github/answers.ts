/** The parts of GitHub's responses that are used: https://docs.github.com/rest */
import { z } from "zod";
import type { ForgeComment, PullRequest } from "../../model.ts";
import { Commit, Login, MaybeTime, MaybeUrl, Name, distinctUrls, lenient, lenientList } from "../payload.ts";

const PullRequestAnswer = z.object({
  number: z.int().positive(),
  html_url: z.url(),
  state: z.enum(["open", "closed"]),
  merged_at: z.string().nullish(),
  draft: z.boolean().optional(),
  title: lenient(z.string()),
  created_at: MaybeTime,
  updated_at: z.iso.datetime({ offset: true }),
  closed_at: MaybeTime,
  /** Of an open one, it is a merge that GitHub tries. */
  merge_commit_sha: lenient(Commit),
  user: lenient(z.object({ login: Login })),
  head: z.object({ sha: Commit, repo: z.object({ id: z.int() }).nullish() }),
  base: z.object({
    ref: Name,
    repo: z.object({
      id: z.int(),
      full_name: Name,
      clone_url: MaybeUrl,
      ssh_url: MaybeUrl,
      git_url: MaybeUrl,
      html_url: MaybeUrl,
    }),
  }),
});

const author = z.object({ id: z.int(), login: z.string(), type: z.string() }).nullish();

const CommentAnswer = z.object({
  id: z.int(),
  body: z.string().optional().default(""),
  html_url: z.url(),
  user: author,
  performed_via_github_app: z.object({ id: z.int() }).nullish(),
});

export const pullRequestAnswer = PullRequestAnswer;
export const pullRequestAnswers = z.array(PullRequestAnswer);
export const closedPullRequestAnswers = lenientList(PullRequestAnswer);
export const commentAnswer = CommentAnswer;
export const commentAnswers = z.array(CommentAnswer);
export const userAnswer = z.object({ id: z.int() });
export const appAnswer = z.object({ id: z.int(), slug: Name, html_url: z.url() });
export const installationAnswer = z.object({
  id: z.int(),
  html_url: z.url(),
  repository_selection: z.string(),
  permissions: z.record(z.string(), z.string()),
});
export const installationTokenAnswer = z.object({
  /** Valid in a header. */
  token: z.string().regex(/^[\x21-\x7e]+$/, "is not a token"),
  expires_at: z.iso.datetime({ offset: true }),
});

export const checkRunsAnswer = z.object({
  check_runs: z.array(
    z.object({
      id: z.int(),
      name: z.string(),
      status: z.string(),
      conclusion: z.string().nullable(),
      app: z.object({ id: z.int() }).nullable(),
    }),
  ),
});
export const combinedStatusAnswer = z.object({
  statuses: z.array(z.object({ context: z.string(), state: z.string() })),
});

export type CommentAnswer = z.infer<typeof CommentAnswer>;

export function toPullRequest(forge: string, answer: z.infer<typeof PullRequestAnswer>): PullRequest {
  const { head, base } = answer;
  const { repo } = base;
  return {
    // In GitHub's own spelling: a request for `ORG/repo` is answered as well.
    key: { forge, repoName: repo.full_name, number: answer.number },
    url: answer.html_url,
    state: answer.merged_at ? "merged" : answer.state,
    draft: answer.draft ?? false,
    head: head.sha,
    baseBranch: base.ref,
    // A deleted fork has no repository.
    fork: head.repo?.id !== repo.id,
    repoUrls: distinctUrls(repo.clone_url, repo.ssh_url, repo.git_url, repo.html_url),
    updatedAt: Date.parse(answer.updated_at),
    closedAt: answer.closed_at,
    ...(answer.merged_at && { mergeCommit: answer.merge_commit_sha }),
    title: answer.title,
    createdAt: answer.created_at,
    author: answer.user?.login,
  };
}

export function toForgeComment({ id, body, html_url: url }: CommentAnswer): ForgeComment {
  return { id: String(id), body, url };
}
