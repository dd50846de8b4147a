/** kluctl's keys of repositories, as used in overrides: `git://host[:port]/path` and `oci://host[:port]/path`. Pure. */
import type { RepoKey, SourceOverride } from "../model.ts";
import { parseRepoUrl } from "./repo-url.ts";

const form = /^(?:(git|oci):\/\/)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?)\/(.*)$/is;

/** Returns `undefined` if it is not a valid key. Without a type, it is a git key. */
export function parseRepoKey(text: string): RepoKey | undefined {
  const [, type, host, path] = form.exec(text) ?? [];
  if (host === undefined || path === undefined || /\p{Cc}/u.test(path)) return undefined;
  return { type: type === "oci" ? "oci" : "git", host, path };
}

export function repoKeyText({ type, host, path }: RepoKey): string {
  return `${type}://${host}/${path}`;
}

/** kluctl's key of the repository that a project references by this URL. */
export function toRepoKey(url: string): RepoKey | undefined {
  const oci = /^oci:\/\/([^/]+)\/+(.*?)\/?$/.exec(url);
  if (oci?.[1] !== undefined && oci[2] !== undefined) return { type: "oci", host: oci[1], path: oci[2] };
  const git = parseRepoUrl(url);
  return git && { type: "git", host: git.hostAndPort, path: git.path.toLowerCase() };
}

export function matchesOverride(
  { repoKey, isGroup }: Pick<SourceOverride, "repoKey" | "isGroup">,
  key: RepoKey,
): boolean {
  if (repoKey.type !== key.type || repoKey.host !== key.host) return false;
  return isGroup ? key.path.startsWith(`${repoKey.path}/`) : key.path === repoKey.path;
}
