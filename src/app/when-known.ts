/** Deliveries wait until the deployments are known: before that, they would match none of them. */
import { setTimeout as sleep } from "node:timers/promises";
import { RequestError } from "../errors.ts";
import type { Accept } from "../intake/intake.ts";

/** Less than the time within which a delivery has to be answered. */
const longestMs = 1_500;
const lookEveryMs = 50;
const hint =
  "Send the delivery again; otherwise the next sweep finds the change. /readyz says what the server waits for.";

/**
 * Throws RequestError (503) if the deployments are not listed in time, so that the git host learns that the delivery has
 * failed: a server that says "no deployment follows this repository" then would be believed.
 */
export function whenKnown(accept: Accept, deployments: { synced(): boolean }): Accept {
  return async (event) => {
    for (const until = performance.now() + longestMs; !deployments.synced(); await sleep(lookEveryMs)) {
      if (performance.now() > until) throw new RequestError(503, "The KluctlDeployments are not loaded yet.", hint);
    }
    return accept(event);
  };
}
