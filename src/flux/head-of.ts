/** Finds the commit that a GitRepository should have, given the refs of its remote. Pure. */
import { compareVersions, parseVersion, parseVersionRange } from "../kit/version-range.ts";
import { type FluxRef, followedBy, type Heads } from "../model.ts";

/** `undefined`: there is no such ref, or only Flux can decide it. */
export function headOf(ref: FluxRef, { commits }: Pick<Heads, "commits">): string | undefined {
  const followed = followedBy(ref);
  switch (followed.kind) {
    case "commit":
      return undefined; // it never moves
    case "ref":
      return commits.get(followed.name);
    case "versions":
      return highestOf(followed.range, commits);
  }
}

function highestOf(range: string, commits: Heads["commits"]): string | undefined {
  const accepts = parseVersionRange(range);
  if (accepts === undefined) return undefined;
  const versions = [...commits].flatMap(([name, commit]) => {
    const version = name.startsWith("refs/tags/") ? parseVersion(name.slice("refs/tags/".length)) : undefined;
    return version !== undefined && accepts(version) ? [{ version, commit }] : [];
  });
  const highest = versions.toSorted((a, b) => compareVersions(b.version, a.version));
  const [first, second] = highest;
  // Of equal versions (`1.2.0`, `v1.2.0`), Flux takes the tag whose commit is later, which the refs do not show.
  const isTie = first && second && compareVersions(first.version, second.version) === 0;
  return isTie ? undefined : first?.commit;
}

/** The full name of the followed ref if it is neither a branch nor a tag, such as `refs/pull/7/head`. */
export function unusualRefOf(ref: FluxRef): string | undefined {
  const followed = followedBy(ref);
  if (followed.kind !== "ref" || /^refs\/(?:heads|tags)\//.test(followed.name)) return undefined;
  return followed.name;
}
