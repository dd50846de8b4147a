/** Derives the deployments to compare from the merges. Pure, except that it releases merges. */
import type { Ignored } from "../model/receipt.ts";
import { type GitDeployment, keyText, type PullRequest } from "../model.ts";
import { compareText } from "../kit/compare-text.ts";
import { type Include, isOf } from "../model/includes.ts";
import { reposOfUrls } from "../model/repo-url.ts";
import { credentialSecrets } from "../access/credentials.ts";
import { toFailure } from "../reconcile/failures.ts";
import type { PreviewTarget } from "./compare.ts";
import { touchesKnown } from "../intake/touched-files.ts";
import { matchPullRequest } from "./match.ts";
import { describeOthers, matchConsumers, otherIncludes } from "./match-consumers.ts";
import type { FailedGroup, MergedGroup, MergedOrNot } from "./merges.ts";

export interface Targets {
  /** Sorted by name. */
  readonly targets: readonly PreviewTarget[];
  readonly ignored: readonly Ignored[];
  /** See MatchedConsumers. */
  readonly unshown: readonly Ignored[];
  /** What must not appear in any message. */
  readonly secrets: readonly string[];
  /**
   * Why the repository could not be read with some credentials, if a retry may help; `everywhere`: nor with any others.
   */
  readonly unreadable?: { readonly error: unknown; readonly everywhere: boolean } | undefined;
}

/** Now that the changed files are known, some deployments turn out not to be affected. */
export function toTargets(
  pullRequest: Pick<PullRequest, "repoUrls" | "baseBranch">,
  merges: readonly MergedOrNot[],
): Targets {
  const targets: PreviewTarget[] = [];
  const ignored: Ignored[] = [];
  const unshown: Ignored[] = [];
  // It is one repository: what was read with one set of credentials is true for all.
  const known = merges.find((one) => one.kind === "merged")?.known;
  for (const one of merges) {
    if (one.kind === "nobody") {
      ignored.push(...one.ignored);
      unshown.push(...(one.unshown ?? []));
    }
    if (one.kind !== "merged" && one.kind !== "failed") continue;
    const { credentials } = one;
    if (one.includes) {
      const matched = matchConsumers(pullRequest, one.deployments, one.kind === "merged" ? one.known : known);
      targets.push(...matched.concerned.map((deployment) => toConsumer(deployment, one, pullRequest)));
      ignored.push(...matched.ignored);
      unshown.push(...matched.unshown);
      continue;
    }
    const merge = one.kind === "merged" ? one.merge : { error: one.error };
    // Nothing of a merge queue is deployed: a group counts with those ahead of it.
    const base = one.kind === "merged" ? (one.tip ?? one.base) : undefined;
    const heads = one.kind === "merged" ? one.heads : undefined;
    const matched = matchPullRequest(pullRequest, one.deployments, one.kind === "merged" ? one.known : known);
    const changed = (one.kind === "merged" ? one.known : known)?.changed;
    const isUnsure = (deployment: GitDeployment) => changed !== undefined && !touchesKnown(changed, deployment);
    targets.push(
      ...matched.concerned.map((deployment) => ({
        ...{ deployment, credentials, merge, base, heads },
        ...(isUnsure(deployment) && { unsure: true }),
      })),
    );
    ignored.push(...matched.ignored);
  }
  const failed = merges.filter((one) => one.kind === "failed");
  const mendable = failed.find(({ error }) => toFailure(error).retry === "soon");
  return {
    targets: targets.sort((a, b) => compareText(keyText(a.deployment.key), keyText(b.deployment.key))),
    ignored,
    unshown,
    secrets: merges.flatMap((one) => ("credentials" in one ? credentialSecrets(one.credentials) : [])),
    unreadable: mendable && { error: mendable.error, everywhere: failed.length === merges.length },
  };
}

function toConsumer(
  deployment: GitDeployment,
  one: MergedGroup | FailedGroup,
  { baseBranch, repoUrls }: Pick<PullRequest, "repoUrls" | "baseBranch">,
): PreviewTarget {
  const { credentials } = one;
  if (one.kind === "failed") return { deployment, credentials, merge: { error: one.error }, consumer: {} };
  if (one.consumers === undefined) throw new Error("a group that includes the repository has no merges");
  const { merge, commits } = one.consumers.mergeFor(deployment);
  const repos = reposOfUrls(repoUrls);
  const findOthers = (included: readonly Include[]) =>
    describeOthers(
      otherIncludes(
        included.filter(({ url }) => isOf(url, repos)),
        baseBranch,
        one.known.defaultRef,
      ),
    );
  return { deployment, credentials, merge, base: one.tip ?? one.base, consumer: { commits, findOthers } };
}

/** The base commit of the merge; if there are several merges, that of the first. */
export function findBase(merges: readonly MergedOrNot[]): string | undefined {
  return merges.find((one) => one.kind !== "failed")?.base;
}

export function findConflict(merges: readonly MergedOrNot[]): string[] | undefined {
  const conflict = merges.find((one) => one.kind === "conflict");
  return conflict && [...conflict.paths];
}

export async function release(merges: readonly MergedOrNot[]): Promise<void> {
  const merged = merges.filter((one) => one.kind === "merged");
  await Promise.all(
    merged.map(async ({ merge, consumers }) => {
      await consumers?.release();
      await merge.release();
    }),
  );
}
