/**
 * The commits of included branches and tags that the last reconciliation of a deployment rendered, or older ones of the
 * same ref.
 * Recorded in an annotation, so that every server knows from its watch whether a merge into a library is deployed, and the sweep
 * whether a push to it is. Pure.
 */
import { annotation, type AnyDeployment } from "./deployment.ts";

export interface IncludedCommit {
  readonly url: string;
  /** Full name of the branch or tag, also where the project includes the default branch. */
  readonly ref: string;
  /**
   * Git had it before kluctl asked for the ref: what was rendered is this commit or a newer one, unless the ref was
   * rewritten in between. The push that rewrites it is a reason to reconcile again.
   */
  readonly commit: string;
}

/** Each is a question to git before a reconciliation. */
export const mostIncludedCommits = 20;

/** The annotation's text: one ref a line; `undefined` if there are none. */
export function formatIncludedCommits(commits: readonly IncludedCommit[]): string | undefined {
  const lines = commits.slice(0, mostIncludedCommits).map(({ url, ref, commit }) => `${url} ${ref} ${commit}`);
  return lines.length === 0 ? undefined : lines.toSorted().join("\n");
}

/** Users may write the annotation too: what is not a line of it is ignored. */
export function includedCommitsOf({ annotations }: Pick<AnyDeployment, "annotations">): IncludedCommit[] {
  const lines = (annotations[annotation.includedCommits] ?? "").split("\n", mostIncludedCommits);
  return lines.flatMap((line) => {
    const [, url = "", ref = "", commit = ""] = linePattern.exec(line) ?? [];
    return url === "" ? [] : [{ url, ref, commit }];
  });
}

const linePattern = /^(\S{1,500}) (refs\/(?:heads|tags)\/\S{1,300}) ([0-9a-f]{40}|[0-9a-f]{64})$/;
