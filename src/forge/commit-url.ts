/** The web page of a commit, on the forge that the repository's address belongs to. */
import type { ForgeKind, RepoId } from "../model.ts";
import { createRepoNames } from "./repo-name.ts";

export interface CommitForge {
  readonly kind: ForgeKind;
  readonly apiUrl?: string | undefined;
  readonly webUrl?: string | undefined;
}

const publicHosts: Partial<Record<ForgeKind, string>> = { github: "https://github.com", gitlab: "https://gitlab.com" };

/** Returns `undefined` for a repository that is not on any of the forges. */
export function createCommitUrls(forges: readonly CommitForge[]): (repo: RepoId, commit: string) => string | undefined {
  const known = forges.flatMap(({ kind, apiUrl, webUrl }) => {
    const base = (webUrl ?? apiUrl?.replace(/\/api(?:\/v\d+)?\/*$/, "") ?? publicHosts[kind])?.replace(/\/+$/, "");
    if (base === undefined) return [];
    const page = kind === "gitlab" ? "/-/commit/" : "/commit/";
    return [{ base, page, nameAt: createRepoNames(base, (name) => name.includes("/")) }];
  });
  return function commitUrl(repo, commit) {
    for (const { base, page, nameAt } of known) {
      const name = nameAt(repo);
      if (name === undefined) continue;
      return `${base}/${name.split("/").map(encodeURIComponent).join("/")}${page}${encodeURIComponent(commit)}`;
    }
    return undefined;
  };
}
