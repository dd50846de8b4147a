/** The parts of Gitea's and Forgejo's responses that are used: https://docs.gitea.com/api. */
import { z } from "zod";
import type { ForgeComment, PullRequest } from "../../model.ts";
import { Commit, Login, MaybeTime, MaybeUrl, Name, distinctUrls, lenient } from "../payload.ts";
import { Flow, Origin, originOf } from "./origin.ts";

const id = z.int().nonnegative();
const Time = z.iso.datetime({ offset: true });

export const Account = z.object({ id });

const PullRequestAnswer = z.object({
  number: z.int().positive(),
  html_url: z.url(),
  state: z.enum(["open", "closed"]),
  merged: z.boolean(),
  draft: lenient(z.boolean()),
  title: lenient(z.string()),
  created_at: MaybeTime,
  updated_at: Time,
  closed_at: MaybeTime,
  merge_commit_sha: lenient(Commit),
  user: lenient(z.object({ login: Login })),
  head: z.object({ sha: Commit, ...Origin }),
  flow: Flow,
  base: z.object({
    ref: Name,
    repo_id: z.int(),
    repo: z.object({ full_name: Name, clone_url: MaybeUrl, ssh_url: MaybeUrl, html_url: MaybeUrl }),
  }),
});

export const PullRequestOf = (forge: string) =>
  PullRequestAnswer.transform(
    ({ number, html_url, state, merged, draft, updated_at, closed_at, head, base, flow, ...more }): PullRequest => {
      const { full_name, clone_url, ssh_url, html_url: page } = base.repo;
      return {
        key: { forge, repoName: full_name, number },
        url: html_url,
        state: merged ? "merged" : state,
        draft: draft ?? false,
        head: head.sha,
        baseBranch: base.ref,
        ...originOf({ head, base, flow }),
        repoUrls: distinctUrls(clone_url, ssh_url, page),
        updatedAt: Date.parse(updated_at),
        closedAt: closed_at,
        ...(merged && { mergeCommit: more.merge_commit_sha }),
        title: more.title,
        createdAt: more.created_at,
        author: more.user?.login,
      };
    },
  );

export const Comment = z
  .object({ id, body: z.string(), html_url: z.url(), user: z.object({ id: z.int() }).nullish() })
  .transform((comment): ForgeComment & { readonly author: number | undefined } => ({
    id: String(comment.id),
    body: comment.body,
    url: comment.html_url,
    author: comment.user?.id,
  }));
