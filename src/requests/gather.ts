/** Queues together what is requested within a moment, such as by two hundred resources that are applied at once. */
import type { Logger } from "../log.ts";
import { keyText, type ReconcileRequest } from "../model.ts";

export interface Gathered {
  add(request: ReconcileRequest): void;
  /** Queues what is gathered, unless Redis does not accept it; nothing is queued any more afterwards. */
  stop(): Promise<void>;
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
  let queueing: Promise<unknown> = Promise.resolve();
  let stopped = false;

  const idOf = ({ deployment, cause }: ReconcileRequest) => `${keyText(deployment)} ${cause}`;

  async function queueAll(): Promise<void> {
    if (gathered.size === 0) return;
    const requests = [...gathered.values()];
    gathered.clear();
    try {
      await enqueue(requests);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log.warn(
        { requests: requests.length, error: reason },
        stopped ? "the server stopped before Redis took its last requests" : refused,
      );
      // What was requested since then is newer: its resource may follow another repository.
      for (const request of requests) if (!gathered.has(idOf(request))) gathered.set(idOf(request), request);
      if (!stopped) plan(againMs);
    }
  }

  function plan(afterMs: number): void {
    planned ??= setTimeout(() => {
      planned = undefined;
      // One that Redis still holds may be refused after the next has begun.
      queueing = Promise.all([queueing, queueAll()]);
    }, afterMs);
  }

  return {
    add(request) {
      if (stopped) return;
      gathered.set(idOf(request), request);
      plan(gatherMs);
    },
    async stop() {
      stopped = true;
      clearTimeout(planned);
      await queueing;
      await queueAll();
    },
  };
}
