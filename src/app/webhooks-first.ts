/**
 * Gives webhooks priority: during a burst of deliveries, work that can wait leaves the CPU to them. A host gives up on
 * a delivery after seconds, while a deployment loses nothing if it starts half a second later.
 */
import type { Accept } from "../intake/intake.ts";

export interface WebhooksFirst {
  /**
   * Counts the deliveries in progress. Only authentic ones, so that unauthenticated senders cannot slow anything down.
   */
  readonly accept: Accept;
  /** Resolves when there is no burst, and after half a second in any case, because the work has to be done, too. */
  turn(): Promise<void>;
}

/** This many concurrent deliveries are a burst: accepting one takes a few milliseconds. */
const rush = 8;
const lookEveryMs = 25;
const longestMs = 500;

export function createWebhooksFirst(accept: Accept): WebhooksFirst {
  let open = 0;
  return {
    async accept(event) {
      open++;
      try {
        return await accept(event);
      } finally {
        open--;
      }
    },
    async turn() {
      for (let waited = 0; open >= rush && waited < longestMs; waited += lookEveryMs) {
        await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
      }
    },
  };
}
