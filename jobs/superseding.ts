/**
 * Aborts previews when a newer request waits behind them: their results would be obsolete. Polls Redis for all running
 * previews, because the newer request may have come through another replica.
 */
import type { Redis } from "ioredis";
import { SupersededError } from "../src/errors.ts";
import { createBoundedMap } from "../src/kit/bounded-map.ts";
import { parseJson } from "../src/kit/json.ts";
import type { Logger } from "../src/log.ts";
import { subjectOf } from "../src/model.ts";
import { describeRedisError } from "../src/redis/connection.ts";
import { parseJobData } from "./job-data.ts";
import type { LaneRequests } from "./lanes.ts";

type Request = LaneRequests["preview"];

export interface SupersedingDeps {
  readonly connection: Redis;
  /** The key that stores the request that arrived while this one ran. */
  readonly followUpKey: (request: Request) => string;
  readonly everyMs: number;
  readonly log: Logger;
}

export interface Superseding {
  /** Aborts the controller when a newer request waits. Returns a function to be called when the work ends. */
  watch(request: Request, controller: AbortController): () => void;
  stop(): void;
}

interface Watched {
  readonly request: Request;
  readonly controller: AbortController;
}

/** If a branch moves faster than a preview takes, its pull requests would otherwise never be previewed. */
const mostInARow = 3;
/** The number of superseded subjects that are remembered; the least recently superseded are evicted first. */
const mostRemembered = 1_000;

export function createSuperseding({ connection, followUpKey, everyMs, log }: SupersedingDeps): Superseding {
  const watched = new Set<Watched>();
  /** How many times in a row a subject was superseded by anything but a change of the pull request itself. */
  const gaveWay = createBoundedMap<number>({ entries: mostRemembered });
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const running = [...watched].filter(({ controller }) => !controller.signal.aborted);
    const asking = connection.pipeline();
    for (const { request } of running) asking.hget(followUpKey(request), "data");
    try {
      const answers = (await asking.exec()) ?? [];
      for (const [i, one] of running.entries()) {
        const [error, data] = answers[i] ?? [];
        if (!error && typeof data === "string" && watched.has(one)) supersede(one, data);
      }
    } catch (error) {
      log.debug({ error: describeRedisError(error) }, "could not check for newer requests");
    }
    timer = watched.size > 0 ? setTimeout(() => void look(), everyMs) : undefined;
  }

  function supersede({ request, controller }: Watched, followUp: string): void {
    const newer = parseJobData("preview", parseJson(followUp));
    if (newer === undefined) return; // an unreadable request is dropped by the worker
    if (newer.kind === "merge-group") {
      // A group always has the same commit: only its end makes the work obsolete.
      if (newer.ended) controller.abort(new SupersededError("the merge queue is done with the group"));
      return;
    }
    const subject = subjectOf(request);
    const before = gaveWay.get(subject) ?? 0;
    gaveWay.delete(subject);
    if (newer.cause !== "pull-request") {
      gaveWay.set(subject, before + 1);
      if (before >= mostInARow) return;
    }
    controller.abort(new SupersededError("a newer request is waiting"));
  }

  return {
    watch(request, controller) {
      const one = { request, controller };
      watched.add(one);
      timer ??= setTimeout(() => void look(), everyMs);
      return () => {
        watched.delete(one);
        if (!controller.signal.aborted) gaveWay.delete(subjectOf(request));
      };
    },
    stop() {
      watched.clear();
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
