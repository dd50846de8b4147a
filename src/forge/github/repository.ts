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

export function repositoryUrls(repository: z.infer<typeof Repository>): string[] {
  return distinctUrls(repository.clone_url, repository.ssh_url, repository.git_url, repository.html_url);
}
