/**
 * Where a Gitea or a Forgejo says that a pull request's commits are. Who may read a repository may push to `refs/for/…`
 * (AGit), which opens a pull request whose head seems to be in the repository itself, on no branch.
 */
import { z } from "zod";
import type { PullRequest } from "../../model.ts";
import { lenient } from "../payload.ts";

/** Of a head. */
export const Origin = {
  repo_id: lenient(z.int()),
  /**
   * The branch; empty of AGit. Next to it `ref` says less: it is `refs/pull/7/head` also of a branch that was deleted and of
   * a pull request that was reopened, and some lists invent a branch for AGit.
   */
  label: lenient(z.string()),
};

/** Forgejo's, of a pull request: 0 for one from a branch, 1 for AGit. */
export const Flow = z.unknown().optional();

interface Claims {
  readonly head: z.infer<z.ZodObject<typeof Origin>>;
  readonly base: { readonly repo_id?: number | undefined };
  readonly flow?: unknown;
}

/** Unless all of it speaks for a branch of the repository itself, it counts as a fork: a deleted one has no id. */
export function originOf({ head, base, flow }: Claims): Pick<PullRequest, "fork" | "agit"> {
  const { repo_id, label = "" } = head;
  if (repo_id === undefined || repo_id !== base.repo_id) return { fork: true };
  return label === "" || (flow ?? 0) !== 0 ? { fork: true, agit: true } : { fork: false };
}
