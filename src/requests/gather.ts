/** Queues together what is requested within a moment, such as by two hundred resources that are applied at once. */
import type { Logger } from "../log.ts";
import { keyText, type ReconcileRequest } from "../model.ts";

export interface Gathered {
  add(request: ReconcileRequest): void;
  /** Nothing is queued any more. */
  stop(): void;
}

export interface GatheredDeps {
  readonly enqueue: (requests: readonly ReconcileRequest[]) => Promise<unknown>;
  /** The line of the log if Redis did not accept them. */
  readonly refused: string;
  readonly log: Logger;
}

const gatherMs = 20;
/** Delay before requests that Redis did not accept are repeated. */
const againMs = 5_000;

/** Each request is queued once, and repeated until Redis accepts it: for callers whose requests no sweep would make. */
export function gatherRequests({ enqueue, refused, log }: GatheredDeps): Gathered {
  const gathered = new Map<string, ReconcileRequest>();
  let planned: NodeJS.Timeout | undefined;
  let stopped = false;

  function gather(request: ReconcileRequest): void {
    gathered.set(`${keyText(request.deployment)} ${request.cause}`, request);
  }

  function plan(afterMs: number): void {
    planned ??= setTimeout(() => {
      planned = undefined;
      const requests = [...gathered.values()];
      gathered.clear();
      enqueue(requests).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        log.warn({ requests: requests.length, error: reason }, refused);
        if (stopped) return;
        requests.forEach(gather);
        plan(againMs);
      });
    }, afterMs);
  }

  return {
    add(request) {
      gather(request);
      plan(gatherMs);
    },
    stop() {
      stopped = true;
      clearTimeout(planned);
    },
  };
}
