/** What the requests of pushes and of other events have in common. */
import type { Deployment, PreviewRequest, PullRequestKey, RepoId } from "../model.ts";
import type { Deployments } from "../ports.ts";
import { librariesOf } from "../preview/match-consumers.ts";

/** The host stores the response with the delivery: a page of names is enough. */
export const mostNamed = 50;

/** The deployments that include these repositories, and those of the repositories whose pull requests may show them. */
export function consumersOf(
  repos: ReadonlySet<RepoId>,
  including: Deployments["including"],
): { readonly consumers: readonly Deployment[]; readonly libraries: readonly RepoId[] } {
  const consumers = distinct([...repos].flatMap((repo) => including(repo)));
  const shownIn = consumers.flatMap((one) => librariesOf(one).map(({ repo }) => repo));
  return { consumers, libraries: shownIn.filter((repo) => repos.has(repo)) };
}

export function toPreview(
  pullRequest: PullRequestKey,
  cause: PreviewRequest["cause"],
  delivery: string,
  receivedAt: number,
): PreviewRequest {
  return { kind: "preview", pullRequest, cause, delivery, receivedAt };
}

export function distinct<T>(list: readonly T[]): T[] {
  return [...new Set(list)];
}
