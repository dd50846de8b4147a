/** Decides which of Flux's GitRepositories a push affects, and why it does not affect the others. Pure. */
import { describePushed } from "../intake/match.ts";
import { parseVersion, parseVersionRange } from "../kit/version-range.ts";
import { type FluxSource, followedBy, type IgnoredSource, keyText, type PushEvent, type RepoId } from "../model.ts";

interface MatchedSources {
  readonly sources: readonly FluxSource[];
  /** Those of the same repository that the push does not affect, with reasons. */
  readonly ignored: readonly IgnoredSource[];
}

/** `candidates`: the GitRepositories of the pushed repository. In case of doubt, a push affects a source: a needless fetch costs little. */
export function matchSources(
  event: PushEvent,
  candidates: readonly FluxSource[],
  repos: ReadonlySet<RepoId>,
): MatchedSources {
  const sources: FluxSource[] = [];
  const ignored: IgnoredSource[] = [];
  for (const source of candidates) {
    if (!repos.has(source.repo)) continue;
    const reason = reasonToIgnore(event, source);
    if (reason === undefined) sources.push(source);
    else ignored.push({ source: keyText(source.key), reason });
  }
  return { sources, ignored };
}

/** The first reason that applies; permanent reasons come before those specific to this push. */
function reasonToIgnore(event: PushEvent, source: FluxSource): string | undefined {
  if (!source.webhooks) return "webhooks are disabled by annotation";
  const followed = followedBy(source.ref);
  if (followed.kind === "commit") return `is pinned to commit ${followed.commit}`;
  if (followed.kind === "versions" && !isVersionIn(followed.range, event.ref))
    return `follows versions ${followed.range}, the push is to ${describePushed(event)}`;
  if (followed.kind === "ref" && followed.name !== event.ref)
    return `follows ${followed.name}, the push is to ${describePushed(event)}`;
  // What Flux has fetched is no reason: a watch may be behind. The job reads it.
  return source.suspended ? "suspended" : undefined;
}

/** Whether the GitRepository follows a ref of this full name, one that never moves aside. */
export function follows({ ref }: Pick<FluxSource, "ref">, name: string): boolean {
  const followed = followedBy(ref);
  if (followed.kind === "versions") return isVersionIn(followed.range, name);
  return followed.kind === "ref" && followed.name === name;
}

/** Flux ignores tags that are not versions. A range that only Flux understands may contain any version. */
function isVersionIn(range: string, ref: string): boolean {
  if (!ref.startsWith("refs/tags/")) return false;
  const version = parseVersion(ref.slice("refs/tags/".length));
  return version !== undefined && (parseVersionRange(range)?.(version) ?? true);
}
