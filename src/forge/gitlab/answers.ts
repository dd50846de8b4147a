/** The parts of GitLab's responses that are used: https://docs.gitlab.com/api/rest/. */
import { z } from "zod";
import type { PullRequest } from "../../model.ts";
import { Commit, Login, MaybeTime, MaybeUrl, Name, distinctUrls, lenient } from "../payload.ts";

const id = z.int().nonnegative();

export const Account = z.object({ id });

export const Project = z.object({
  path_with_namespace: Name,
  http_url_to_repo: MaybeUrl,
  ssh_url_to_repo: MaybeUrl,
  web_url: z.url(),
});

export const MergeRequest = z.object({
  iid: z.int().positive(),
  web_url: z.url(),
  state: z.enum(["opened", "closed", "locked", "merged"]),
  draft: lenient(z.boolean()),
  /** Null while there is nothing to merge. */
  sha: Commit.nullish(),
  source_branch: Name,
  target_branch: Name,
  /** Null after the fork was deleted. */
  source_project_id: id.nullish(),
  target_project_id: id,
  title: lenient(z.string()),
  created_at: MaybeTime,
  updated_at: z.iso.datetime({ offset: true }),
  closed_at: MaybeTime,
  merged_at: MaybeTime,
  /** Null for a fast-forward. */
  merge_commit_sha: lenient(Commit),
  squash_commit_sha: lenient(Commit),
  author: lenient(z.object({ username: Login })),
});

export type MergeRequest = z.infer<typeof MergeRequest>;

export const Note = z.object({ id, body: z.string(), system: z.boolean(), author: z.object({ id }) });

export type Note = z.infer<typeof Note>;

export const Pipeline = z.object({ id, source: lenient(z.string()) });

/** Returns `undefined` for a merge request without commits. */
export function toPullRequest(
  forge: string,
  request: MergeRequest,
  project: z.infer<typeof Project>,
): PullRequest | undefined {
  const { iid, web_url, state, draft, sha, target_branch, source_project_id, target_project_id, updated_at } = request;
  if (sha === null || sha === undefined) return undefined;
  return {
    key: { forge, repoName: project.path_with_namespace, number: iid },
    url: web_url,
    // Locked: it is being merged right now.
    state: state === "opened" || state === "locked" ? "open" : state,
    draft: draft ?? false,
    head: sha,
    baseBranch: target_branch,
    fork: source_project_id !== target_project_id,
    repoUrls: distinctUrls(project.http_url_to_repo, project.ssh_url_to_repo, project.web_url),
    updatedAt: Date.parse(updated_at),
    closedAt: request.merged_at ?? request.closed_at,
    ...(state === "merged" && { mergeCommit: request.merge_commit_sha ?? request.squash_commit_sha ?? sha }),
    title: request.title,
    createdAt: request.created_at,
    author: request.author?.username,
  };
}
