/**
 * Requests the reports of pull requests that have changed and whose preview waits for those of others: their comments show the
 * result of an earlier commit, and are to say so. Only for what authors do: a base branch may move for hundreds of pull requests.
 */
import type { Logger } from "../../src/log.ts";
import { pullRequestText } from "../../src/model.ts";
import { longWaitMs } from "../../src/reporting/waiting.ts";
import type { JobQueue } from "../queue.ts";

export interface WaitingPreviewsDeps {
  readonly queue: Pick<JobQueue, "enqueue" | "claim" | "waiting">;
  readonly everyMs?: number | undefined;
  readonly log: Logger;
}

/** Longer than a preview waits. */
const rememberedMs = 3_600_000;

export function startWaitingPreviews({ queue, everyMs = 5_000, log }: WaitingPreviewsDeps): { stop(): Promise<void> } {
  let looking = Promise.resolve();

  async function look(): Promise<void> {
    try {
      for (const { request, at } of await queue.waiting("preview", longWaitMs)) {
        if (request.kind !== "preview" || request.cause !== "pull-request") continue;
        const { pullRequest } = request;
        // Once for each request and all replicas: the comment says it until the preview has a result.
        if (!(await queue.claim(`says that ${pullRequestText(pullRequest)} waits since ${at}`, rememberedMs))) continue;
        await queue.enqueue([{ kind: "report", pullRequest }]);
      }
    } catch (error) {
      // Redis is unavailable, which its monitoring reports.
      log.debug({ error: (error as Error).message }, "could not find the previews that wait");
    }
  }

  const timer = setInterval(() => {
    looking = looking.then(look);
  }, everyMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
