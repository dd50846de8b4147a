/**
 * Where the commits of a pull request are, according to Gitea or Forgejo. Anyone with read access to a repository may
 * push to `refs/for/…` (AGit), which opens a pull request whose head seems to be in the repository itself, on no
 * branch.
 */
import { z } from "zod";
import type { PullRequest } from "../../model.ts";
import { lenient } from "../payload.ts";

/** The head of a pull request. */
export const Origin = {
  repo_id: lenient(z.int()),
  /**
   * The branch; empty for AGit. The sibling field `ref` is less reliable: it is `refs/pull/7/head` also for a deleted
   * branch and for a reopened pull request, and some lists invent a branch for AGit.
   */
  label: lenient(z.string()),
};

/** Forgejo only: 0 for a pull request from a branch, 1 for AGit. */
export const Flow = z.unknown().optional();

interface Claims {
  readonly head: z.infer<z.ZodObject<typeof Origin>>;
  readonly base: { readonly repo_id?: number | undefined };
  readonly flow?: unknown;
}

/**
 * A pull request counts as a fork unless all fields indicate a branch of the repository itself: a deleted fork has no
 * id.
 */
export function originOf({ head, base, flow }: Claims): Pick<PullRequest, "fork" | "agit"> {
  const { repo_id, label = "" } = head;
  if (repo_id === undefined || repo_id !== base.repo_id) return { fork: true };
  return label === "" || (flow ?? 0) !== 0 ? { fork: true, agit: true } : { fork: false };
}
