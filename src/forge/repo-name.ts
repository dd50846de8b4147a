import type { RepoId } from "../model.ts";

/**
 * Finds a repository's name on the forge at `webUrl`: its identity without the host, and without the path prefix if the
 * forge is installed under one. SSH addresses do not have that prefix.
 */
export function createRepoNames(
  webUrl: string,
  isName: (name: string) => boolean,
): (repo: RepoId) => string | undefined {
  const { hostname, pathname } = new URL(webUrl);
  const host = `${hostname.toLowerCase()}/`;
  const folder = pathname.replace(/^\/|\/$/g, "").toLowerCase();
  return function repoName(repo) {
    if (!repo.startsWith(host)) return undefined;
    const path = repo.slice(host.length);
    const below = folder !== "" && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : undefined;
    return [below, path].find((name) => name !== undefined && isName(name));
  };
}
