/** What all of GitHub's payloads say of their repository. */
import { z } from "zod";
import type { GitEvent } from "../../model.ts";
import { distinctUrls, lenient, MaybeUrl, Name } from "../payload.ts";

/** What is known of a delivery without its payload. */
export type Origin = Pick<GitEvent, "forge" | "delivery">;

export const Repository = z.object({
  full_name: Name,
  default_branch: lenient(Name),
  clone_url: MaybeUrl,
  ssh_url: MaybeUrl,
  git_url: MaybeUrl,
  html_url: MaybeUrl,
});

/** The repository as all events name it. */
export function repositoryOf(payload: z.infer<typeof Repository>): { repoUrls: string[]; repoName: string } {
  const { full_name, clone_url, ssh_url, git_url, html_url } = payload;
  return { repoUrls: distinctUrls(clone_url, ssh_url, git_url, html_url), repoName: full_name };
}
