/**
 * For a forge whose API has another address than the one users and deployments use, such as a Service of the cluster.
 * Hosts build the URLs in their responses from the address that the request was sent to.
 */
import type { ForgeComment, PullRequest, RepoId } from "../model.ts";
import type { Forge } from "../ports.ts";
import { createRepoNames } from "./repo-name.ts";

/** Wraps a forge so that its URLs start with `webUrl`. */
export function withWebUrl(
  forge: Forge,
  { apiUrl, webUrl }: { readonly apiUrl: string; readonly webUrl: string },
): Forge {
  const base = webUrl.replace(/\/+$/, "");
  const asked = apiUrl.replace(/\/api(?:\/v\d+)?\/*$/, "").replace(/\/+$/, "");
  const nameAt = createRepoNames(base, (name) => name.includes("/"));

  function outside(url: string): string {
    return url.startsWith(`${asked}/`) ? base + url.slice(asked.length) : url;
  }

  function pullRequestOutside(pullRequest: PullRequest): PullRequest {
    const { url, repoUrls, key } = pullRequest;
    return { ...pullRequest, url: outside(url), repoUrls: [...repoUrls, `${base}/${key.repoName}`] };
  }

  function commentOutside(comment: ForgeComment): ForgeComment {
    return { ...comment, url: outside(comment.url) };
  }

  return {
    ...forge,
    repoName: (repo: RepoId) => nameAt(repo) ?? forge.repoName(repo),
    async pullRequest(...args) {
      const found = await forge.pullRequest(...args);
      return found && pullRequestOutside(found);
    },
    openPullRequests: async (...args) => (await forge.openPullRequests(...args)).map(pullRequestOutside),
    closedPullRequests: async (...args) => (await forge.closedPullRequests(...args)).map(pullRequestOutside),
    ownComments: async (...args) => (await forge.ownComments(...args)).map(commentOutside),
    createComment: async (...args) => commentOutside(await forge.createComment(...args)),
    async updateComment(...args) {
      const updated = await forge.updateComment(...args);
      return updated && commentOutside(updated);
    },
  };
}
