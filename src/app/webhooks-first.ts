/**
 * Webhooks are answered first: in a rush of deliveries, work that can wait a moment leaves them the processor. A host
 * gives up on a delivery after seconds, while a deployment that starts half a second later has lost nothing.
 */
import type { Accept } from "../intake.ts";

export interface WebhooksFirst {
  /** Counts the deliveries that are being taken. Genuine ones only, so that nobody else can slow anything down. */
  readonly accept: Accept;
  /** Resolves when there is no rush, and after half a second in any case: the work has to be done as well. */
  turn(): Promise<void>;
}

/** So many deliveries at the same time are no coincidence: one is taken in a few milliseconds. */
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
