/** Searches and sorts the deployments. Pure. */
import { withNewerCommit } from "../src/views/newer-text.ts";
import type { PageDeployment, PageNewerCommit } from "../src/web/facts.ts";
import { type Health, healthOf } from "./health.ts";
import { hasWords, searchWords } from "./search-words.ts";

export type Only = Health | "drift" | "";

export const worstFirst: readonly Health[] = ["failed", "waiting", "working", "suspended", "ready"];

/** Says why newer commits wait, where they do. None if they could not be read now: what was read before may not wait any more. */
export function withNewerCommits(
  all: readonly PageDeployment[],
  newer: readonly PageNewerCommit[] = [],
  problem?: string,
): readonly PageDeployment[] {
  if (newer.length === 0 || problem !== undefined) return all;
  const waiting = new Map(newer.map((one) => [nameOf(one), one]));
  return all.map((one) => {
    const why = withNewerCommit(one, waiting.get(nameOf(one)));
    return why === one.why ? one : { ...one, why };
  });
}

function nameOf({ namespace, name }: Pick<PageDeployment, "namespace" | "name">): string {
  return `${namespace}/${name}`;
}

/** What needs attention comes first: after what fails, waits or is in progress, whatever differs from git. */
export function selectDeployments(all: readonly PageDeployment[], text: string, only: Only): readonly PageDeployment[] {
  const words = searchWords(text);
  return all
    .filter((one) => only === "" || (only === "drift" ? hasDrift(one) : healthOf(one) === only))
    .filter((one) => {
      if (words.length === 0) return true;
      const { target, source, ref, path, commit, why } = one;
      return hasWords([nameOf(one), target, source, ref, path, commit, why].join(" "), words);
    })
    .map((one) => ({ one, rank: rankOf(one), key: nameOf(one) }))
    .toSorted((a, b) => a.rank - b.rank || (a.key < b.key ? -1 : 1))
    .map(({ one }) => one);
}

export function hasDrift({ drift }: PageDeployment): boolean {
  return drift !== undefined && drift !== "none";
}

/** Within each state, those with drift come first; with drift, nothing counts as healthy or put aside. */
function rankOf(deployment: PageDeployment): number {
  const rank = worstFirst.indexOf(healthOf(deployment));
  const firstCalm = worstFirst.indexOf("suspended");
  return hasDrift(deployment) ? Math.min(rank, firstCalm) - 0.5 : rank;
}
