/** Blocks all requests of this process to a forge while the forge enforces a rate limit. */
import { ForgeError } from "../errors.ts";
import { aroundEach } from "../kit/around.ts";
import type { Clock, Forge } from "../ports.ts";
import { forgeRequests } from "./operations.ts";

/** The wait that one forge asked for. Everything that sends requests with its login shares it. */
export interface Rest {
  /** Sends nothing during the wait: rejects with a ForgeError `rate-limited` that says how long it takes. */
  ask<Result>(send: () => Promise<Result>): Promise<Result>;
}

/**
 * Delaying only the job that hit the limit is not enough: other jobs, the sweep, checks of the login and of webhooks
 * would continue to send requests, and hosts extend the wait of clients that do.
 */
export function createRest(id: string, clock: Clock, onRest?: (until: number) => void): Rest {
  let until = 0;

  return {
    async ask(send) {
      const restMs = until - clock.now();
      if (restMs > 0) {
        const message = `requests to forge ${id} are paused for ${Math.ceil(restMs / 1_000)} s, as the forge requested`;
        throw new ForgeError("rate-limited", message, { retryAfterMs: restMs });
      }
      try {
        return await send();
      } catch (error) {
        if (error instanceof ForgeError && error.problem === "rate-limited" && error.retryAfterMs !== undefined) {
          until = Math.max(until, clock.now() + error.retryAfterMs);
          onRest?.(until);
        }
        throw error;
      }
    },
  };
}

export function withRest(forge: Forge, rest: Rest): Forge {
  return aroundEach(forge, forgeRequests, (next) => rest.ask(next));
}
