/** The order in which the deployments of a report would be deployed, because of their dependencies. Pure. */
import { type AnyDeployment, type GitDeployment, type Key, keyText } from "../model.ts";
import { dependenciesOf } from "../guards/depends-on.ts";
import { nameOfPreview, type Preview } from "../model/report.ts";

/**
 * What a shown deployment depends on: directly, and the shown ones that it reaches only through others. What those depend on
 * in turn is theirs to say.
 */
export function findDependencies(
  deployment: GitDeployment,
  shown: ReadonlySet<string>,
  find: (name: string) => AnyDeployment | undefined,
): readonly Key[] {
  const direct = dependenciesOf(deployment).keys;
  const found = [...direct];
  const seen = new Set(direct.map(keyText));
  let through: readonly Key[] = direct.filter((key) => !shown.has(keyText(key)));
  while (through.length > 0) {
    const next = through.flatMap((key) => {
      const one = find(keyText(key));
      return one === undefined ? [] : dependenciesOf(one).keys;
    });
    const reached = [...new Map(next.map((key) => [keyText(key), key])).values()].filter(
      (key) => !seen.has(keyText(key)),
    );
    for (const key of reached) seen.add(keyText(key));
    found.push(...reached.filter((key) => shown.has(keyText(key))));
    through = reached.filter((key) => !shown.has(keyText(key)));
  }
  return found;
}

/**
 * The deployments that depend on others in the report, or others on them, in steps: each waits for the ones before.
 * Deployments that depend on themselves are never deployed, and left out.
 */
export function findOrder(previews: readonly Preview[]): readonly (readonly Preview[])[] {
  const known = new Set(previews.map(nameOfPreview));
  const needs = new Map(
    previews.map((preview) => [preview, (preview.dependsOn ?? []).map(keyText).filter((name) => known.has(name))]),
  );
  const needed = new Set([...needs.values()].flat());
  const steps: Preview[][] = [];
  let rest = previews.filter((preview) => needs.get(preview)?.length || needed.has(nameOfPreview(preview)));
  while (rest.length > 0) {
    const waiting = new Set(rest.map(nameOfPreview));
    const next = rest.filter((preview) => !needs.get(preview)?.some((name) => waiting.has(name)));
    if (next.length === 0) break;
    steps.push(next);
    rest = rest.filter((preview) => !next.includes(preview));
  }
  return steps;
}

/** Each after those that it depends on; the others stay where they are. */
export function sortByOrder(previews: readonly Preview[]): Preview[] {
  const steps = findOrder(previews);
  const stepOf = new Map(steps.flatMap((step, at) => step.map((preview) => [preview, at] as const)));
  return previews.toSorted((a, b) => (stepOf.get(a) ?? 0) - (stepOf.get(b) ?? 0));
}
