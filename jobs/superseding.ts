/**
 * Ends previews that something newer waits behind: nobody would look at them. That there is something newer is seen in
 * Redis by asking, for all that run at once: it may have come through another replica.
 */
import type { Redis } from "ioredis";
import { SupersededError } from "../src/errors.ts";
import { parseJson } from "../src/json.ts";
import type { Logger } from "../src/log.ts";
import { subjectOf } from "../src/model.ts";
import { describeRedisError } from "./connection.ts";
import { parseJobData } from "./job-data.ts";
import type { LaneRequests } from "./lanes.ts";

type Request = LaneRequests["preview"];

export interface SupersedingDeps {
  readonly connection: Redis;
  /** Where the request that came while this one ran is kept. */
  readonly followUpKey: (request: Request) => string;
  readonly everyMs: number;
  readonly log: Logger;
}

export interface Superseding {
  /** Aborts the controller when something newer waits. Returns what is to be called when the work has ended. */
  watch(request: Request, controller: AbortController): () => void;
  stop(): void;
}

interface Watched {
  readonly request: Request;
  readonly controller: AbortController;
}

/** A branch that moves faster than a preview takes would let none of its pull requests ever be previewed. */
const mostInARow = 3;
/** Subjects that are remembered for having given way; the oldest are forgotten first. */
const mostRemembered = 1_000;

export function createSuperseding({ connection, followUpKey, everyMs, log }: SupersedingDeps): Superseding {
  const watched = new Set<Watched>();
  /** How often in a row a subject gave way to something else than a change of the pull request itself. */
  const gaveWay = new Map<string, number>();
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
    if (newer === undefined) return; // nothing will come of it
    if (newer.kind === "merge-group") {
      // Of one group it is always the same commit: only its end makes the work useless.
      if (newer.ended) controller.abort(new SupersededError("the merge queue is done with the group"));
      return;
    }
    const subject = subjectOf(request);
    const before = gaveWay.get(subject) ?? 0;
    gaveWay.delete(subject);
    if (newer.cause !== "pull-request") {
      remember(subject, before + 1);
      if (before >= mostInARow) return;
    }
    controller.abort(new SupersededError("a newer request is waiting"));
  }

  function remember(subject: string, times: number): void {
    gaveWay.set(subject, times);
    const [oldest] = gaveWay.keys();
    if (gaveWay.size > mostRemembered && oldest !== undefined) gaveWay.delete(oldest);
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
