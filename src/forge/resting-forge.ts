/** Blocks all requests of this process to a forge while the forge enforces a rate limit. */
import { ForgeError } from "../errors.ts";
import { aroundEach } from "../kit/around.ts";
import type { Clock, Forge } from "../ports.ts";
import { forgeRequests } from "./operations.ts";

/**
 * Delaying only the job that hit the limit is not enough: other jobs, the sweep and newer requests would continue to
 * send requests, and hosts extend the wait of clients that do.
 */
export function createRestingForge(forge: Forge, clock: Clock, onRest?: (until: number) => void): Forge {
  let until = 0;

  return aroundEach(forge, forgeRequests, async (next) => {
    const restMs = until - clock.now();
    if (restMs > 0) {
      const message = `requests to forge ${forge.id} are paused for ${Math.ceil(restMs / 1_000)} s, as the forge requested`;
      throw new ForgeError("rate-limited", message, { retryAfterMs: restMs });
    }
    try {
      return await next();
    } catch (error) {
      if (error instanceof ForgeError && error.problem === "rate-limited" && error.retryAfterMs !== undefined) {
        until = Math.max(until, clock.now() + error.retryAfterMs);
        onRest?.(until);
      }
      throw error;
    }
  });
}
