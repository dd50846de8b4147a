/** The order in which the deployments of a report would be deployed, because of their dependencies. Pure. */
import { keyText } from "../model.ts";
import type { Preview } from "../model/report.ts";

/**
 * The deployments that depend on others in the report, or others on them, in steps: each waits for the ones before.
 * Deployments that depend on themselves are never deployed, and left out.
 */
export function findOrder(previews: readonly Preview[]): readonly (readonly Preview[])[] {
  const known = new Set(previews.map(({ deployment }) => keyText(deployment)));
  const needs = new Map(
    previews.map((preview) => [preview, (preview.dependsOn ?? []).map(keyText).filter((name) => known.has(name))]),
  );
  const needed = new Set([...needs.values()].flat());
  const steps: Preview[][] = [];
  let rest = previews.filter((preview) => needs.get(preview)?.length || needed.has(keyText(preview.deployment)));
  while (rest.length > 0) {
    const waiting = new Set(rest.map(({ deployment }) => keyText(deployment)));
    const next = rest.filter((preview) => !needs.get(preview)?.some((name) => waiting.has(name)));
    if (next.length === 0) break;
    steps.push(next);
    rest = rest.filter((preview) => !next.includes(preview));
  }
  return steps;
}
