/** What merging gives, once for each set of logins that the deployments name; nearly always there is one. */
import { SourceError } from "../errors.ts";
import { isBranchTip } from "../git-ref.ts";
import type { Ignored } from "../match.ts";
import { type Credentials, type GitDeployment, noCredentials, type PullRequest } from "../model.ts";
import type { Merge, Merged, Secrets, Sources } from "../ports.ts";
import { credentialsKey, readCredentials } from "../reconcile/credentials.ts";
import { type Known, matchPullRequest } from "./match.ts";

interface Group {
  readonly deployments: readonly GitDeployment[];
  readonly credentials: Credentials;
}

export interface MergedGroup extends Group {
  readonly kind: "merged";
  readonly base: string;
  readonly known: Known;
  readonly merge: Merged;
}

export interface FailedGroup extends Group {
  readonly kind: "failed";
  readonly error: unknown;
}

export type MergedOrNot =
  | MergedGroup
  | FailedGroup
  | { readonly kind: "conflict"; readonly base: string; readonly paths: readonly string[] }
  /** Now that the default branch is known, nobody follows the base branch. */
  | { readonly kind: "nobody"; readonly base: string; readonly ignored: readonly Ignored[] };

/**
 * No branch of the repository points at the pull request's head. Nobody with write access may have pushed it, whatever the
 * forge says, so nothing of it is merged, let alone rendered. Another try reads the pull request again.
 */
export class HeadOnNoBranch extends SourceError {
  constructor(head: string) {
    super("ref-not-found", `no branch of the repository points at ${head.slice(0, 7)}`);
  }
}

export interface MergesDeps {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads" | "merge">;
}

/** Never rejects, so that nothing is left behind: whoever calls releases the merges, also when some of them failed. */
export async function mergeForEachLogin(
  pullRequest: PullRequest,
  candidates: readonly GitDeployment[],
  deps: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot[]> {
  const groups = Map.groupBy(candidates, credentialsKey);
  return Promise.all([...groups.values()].map((group) => mergeForLogin(pullRequest, group, deps, signal)));
}

async function mergeForLogin(
  pullRequest: PullRequest,
  candidates: readonly GitDeployment[],
  { secrets, sources }: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot> {
  const { head, baseBranch } = pullRequest;
  let credentials = noCredentials;
  try {
    const [first] = candidates as [GitDeployment, ...GitDeployment[]];
    credentials = await readCredentials(first, secrets);
    const repository = { url: first.spec.source.url, credentials: credentials.git };
    // Asked afresh: a webhook of the pull request says nothing about where its base branch is.
    const heads = await sources.heads(repository, undefined, signal);
    const { defaultRef } = heads;
    const base = heads.commits.get(`refs/heads/${baseBranch}`);
    if (base === undefined) throw new SourceError("ref-not-found", `there is no branch ${baseBranch} to merge into`);
    const { concerned: deployments, ignored } = matchPullRequest(pullRequest, candidates, { defaultRef });
    if (deployments.length === 0) return { kind: "nobody", base, ignored };
    if (!isBranchTip(head, heads)) throw new HeadOnNoBranch(head);
    // Of this very commit, wherever its branch is by now.
    const merge: Merge = await sources.merge({ ...repository, head, base }, signal);
    if (merge.kind === "conflict") return { kind: "conflict", base, paths: merge.paths };
    const known = { defaultRef, changed: merge.changed };
    return { kind: "merged", deployments: candidates, credentials, base, known, merge };
  } catch (error) {
    return { kind: "failed", deployments: candidates, credentials, error };
  }
}
