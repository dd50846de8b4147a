/** A forge that asks to be left alone for a while is left alone, whoever in this process wants something of it. */
import { ForgeError } from "../errors.ts";
import type { Clock, Forge } from "../ports.ts";

/**
 * Putting off the job that met the limit is not enough: other jobs, the sweep and newer requests would go on asking, and
 * hosts lengthen the wait of those who do.
 */
export function createRestingForge(forge: Forge, clock: Clock, onRest?: (until: number) => void): Forge {
  let until = 0;

  async function ask<T>(question: () => Promise<T>): Promise<T> {
    const restMs = until - clock.now();
    if (restMs > 0) {
      const message = `requests to forge ${forge.id} are paused for ${Math.ceil(restMs / 1_000)} s, as the forge requested`;
      throw new ForgeError("rate-limited", message, { retryAfterMs: restMs });
    }
    try {
      return await question();
    } catch (error) {
      if (error instanceof ForgeError && error.problem === "rate-limited" && error.retryAfterMs !== undefined) {
        until = Math.max(until, clock.now() + error.retryAfterMs);
        onRest?.(until);
      }
      throw error;
    }
  }

  return {
    id: forge.id,
    kind: forge.kind,
    maxCommentLength: forge.maxCommentLength,
    repoName: (repo) => forge.repoName(repo),
    pullRequest: (...asked) => ask(() => forge.pullRequest(...asked)),
    openPullRequests: (...asked) => ask(() => forge.openPullRequests(...asked)),
    closedPullRequests: (...asked) => ask(() => forge.closedPullRequests(...asked)),
    ownComments: (...asked) => ask(() => forge.ownComments(...asked)),
    createComment: (...asked) => ask(() => forge.createComment(...asked)),
    updateComment: (...asked) => ask(() => forge.updateComment(...asked)),
    deleteComment: (...asked) => ask(() => forge.deleteComment(...asked)),
    setStatus: (...asked) => ask(() => forge.setStatus(...asked)),
  };
}
