/**
 * For a forge whose API has another address than the one users and deployments use, such as a Service of the cluster.
 * Hosts build the URLs in their responses from the address that the request was sent to.
 */
import { around } from "../kit/around.ts";
import type { ForgeComment, PullRequest } from "../model.ts";
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

  return around<Forge>(forge, {
    repoName: (next, repo) => nameAt(repo) ?? next(repo),
    async pullRequest(next, ...args) {
      const found = await next(...args);
      return found && pullRequestOutside(found);
    },
    openPullRequests: async (next, ...args) => (await next(...args)).map(pullRequestOutside),
    closedPullRequests: async (next, ...args) => (await next(...args)).map(pullRequestOutside),
    ownComments: async (next, ...args) => (await next(...args)).map(commentOutside),
    createComment: async (next, ...args) => commentOutside(await next(...args)),
    async updateComment(next, ...args) {
      const updated = await next(...args);
      return updated && commentOutside(updated);
    },
  });
}
