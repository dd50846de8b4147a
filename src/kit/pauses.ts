/** Lets long synchronous work make room for everything else that the event loop has to handle. */
import { setImmediate } from "node:timers/promises";

/** How much longer other work may have to wait: webhooks, and renewals of leases. */
const longestMs = 5;

/** Call between two steps of the work, and await the result if there is one: then it is time for other work. */
export type Pause = () => Promise<void> | undefined;

export function createPauses(): Pause {
  let until = performance.now() + longestMs;
  return () => {
    if (performance.now() < until) return undefined;
    return setImmediate().then(() => void (until = performance.now() + longestMs));
  };
}
