/** Searches and sorts the deployments. Pure. */
import type { PageDeployment } from "../src/web/facts.ts";
import { type Health, healthOf } from "./health.ts";
import { hasWords, searchWords } from "./search-words.ts";

export type Only = Health | "drift" | "";

export const worstFirst: readonly Health[] = ["failed", "waiting", "working", "suspended", "ready"];

/** What needs attention comes first: after what fails, waits or is in progress, whatever differs from git. */
export function selectDeployments(all: readonly PageDeployment[], text: string, only: Only): readonly PageDeployment[] {
  const words = searchWords(text);
  return all
    .filter((one) => only === "" || (only === "drift" ? hasDrift(one) : healthOf(one) === only))
    .filter((one) => {
      if (words.length === 0) return true;
      const { namespace, name, target, source, ref, path, commit, why } = one;
      return hasWords([`${namespace}/${name}`, target, source, ref, path, commit, why].join(" "), words);
    })
    .map((one) => ({ one, rank: rankOf(one), key: `${one.namespace}/${one.name}` }))
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
