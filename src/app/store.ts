/** Redis, and everything that is kept in it. */
import { connectProducer, connectWorker } from "../redis/connection.ts";
import { createDeliveries } from "../redis/deliveries.ts";
import { createDeliveryRecorder } from "../redis/recorded-deliveries.ts";
import { createManifestStore } from "../redis/manifests.ts";
import { createMissedPushStore } from "../redis/missed-pushes.ts";
import { createPostedDeployments } from "../redis/posted-deployments.ts";
import { createSweepPaceStore } from "../redis/sweep-paces.ts";
import { createLogLines } from "../redis/log-lines.ts";
import { createReports } from "../redis/reports.ts";
import { createFairness } from "../../jobs/fairness.ts";
import { laneOf, lanes } from "../../jobs/lanes.ts";
import { createQueue, type JobQueue } from "../../jobs/queue.ts";
import { findJobs } from "../../jobs/queued.ts";
import type { LiveConfig } from "../config/live.ts";
import { around } from "../kit/around.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Key, Request } from "../model.ts";
import { fitsReports } from "../preview/fit-report.ts";
import { findRedis, watchRedis } from "./redis.ts";

export interface StoreDeps {
  readonly live: LiveConfig;
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** Throws if a Redis of the server's own cannot be started. A configured one may still be unavailable. */
export async function openStore({ live, metrics, log }: StoreDeps) {
  const { prefix } = live.now.redis;
  const { address, privateRedis } = await findRedis(live.now, log, live);
  const [connection, consumer] = [connectProducer(address, log), connectWorker(address, log)];
  const redis = watchRedis(connection, prefix, metrics, log);
  const fairness = createFairness();
  const queue = createQueue({
    connection,
    prefix,
    fairness,
    log,
    observe: {
      enqueued: (request, queued) =>
        metrics.stages.enqueued(laneOf(request), causeOf(request), queued ? "queued" : "joined"),
      unavailable: () => metrics.stages.queueFailed(),
    },
  });
  const reports = around(createReports({ connection, prefix }), fitsReports);
  const manifests = createManifestStore({ connection, prefix });
  const posted = createPostedDeployments({ connection, prefix });
  const deliveries = createDeliveries({ connection, prefix, log });
  const recorder = createDeliveryRecorder({
    ...{ connection, prefix, log },
    recording: () => live.now.recording,
    forges: () => live.now.forges,
    observe: (outcome, count) => metrics.outside.deliveriesRecorded(outcome, count),
  });
  const missedPushes = createMissedPushStore({ connection, prefix });
  const sweepPaces = createSweepPaceStore({ connection, prefix });
  const logLines = createLogLines({ connection, prefix, log });
  metrics.scrape({ readQueue: () => readDepths(queue) });
  return {
    ...{
      redis,
      consumer,
      fairness,
      queue,
      reports,
      manifests,
      posted,
      deliveries,
      recorder,
      missedPushes,
      sweepPaces,
      logLines,
      findJobs: (deployments: readonly Key[]) => findJobs(connection, prefix, deployments),
    },
    async close(): Promise<void> {
      await Promise.all([queue.close(), deliveries.flush(), recorder.flush(), logLines.flush()]);
      connection.disconnect();
      consumer.disconnect();
      await privateRedis?.stop();
    },
  };
}

/** The depth of all lanes, or an error: with a partial answer, the other lanes would look empty. */
async function readDepths(queue: Pick<JobQueue, "depth">) {
  return Object.fromEntries(await Promise.all(lanes.map(async (lane) => [lane, { ...(await queue.depth(lane)) }])));
}

/** Reports have no cause of their own: they follow from previews and deployments. */
function causeOf(request: Request): string {
  return "cause" in request ? request.cause : "report";
}
