/** The share of one pull request, or of one merge queue's group, in the places for comparisons. */
import { KilledError } from "../errors.ts";
import type { CompareDeps } from "./compare.ts";

/**
 * Repositories share the places, and the pull requests of a repository share its places. Once a render has been ended because it
 * only waited, no other one of the same pull request begins: with many deployments, it could otherwise occupy a place, and its
 * job a worker, for that time as often.
 */
export function withOwnShare<D extends Pick<CompareDeps, "limit" | "party">>(
  deps: D,
  { forge, repoName }: { readonly forge: string; readonly repoName: string },
  subject: string,
): D {
  const of = [`${forge} ${repoName}`.toLowerCase(), subject];
  let idle: KilledError | undefined;
  const limit: CompareDeps["limit"] = (work, { signal }) =>
    deps.limit(
      async () => {
        if (idle !== undefined) throw new KilledError("idle", `not rendered: in another deployment, ${idle.message}`);
        try {
          return await work();
        } catch (error) {
          if (error instanceof KilledError && error.why === "idle") idle = error;
          throw error;
        }
      },
      { of, signal },
    );
  return { ...deps, limit, party: of };
}
