/** The schemas of the keys of pull requests and commits, as they are stored in Redis. */
import { z } from "zod";

const forge = z
  .string()
  .max(40)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
/** A path of names as git hosts allow them. It becomes part of a URL, so `.` and `..` are rejected. */
const repoName = z
  .string()
  .max(500)
  .regex(/^(?!.*(?:^|\/)\.{1,2}(?:\/|$))[\w.-]+(?:\/[\w.-]+)+$/);
export const commit = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);

export const PullRequestKey = z.object({ forge, repoName, number: z.int().positive() });
export const CommitKey = z.object({ forge, repoName, commit });
