/** A worker in a process of its own: prints `started` for each job, which fails and is retried, or with `endless` never ends. */
import { connectWorker } from "../../../src/redis/connection.ts";
import { createFairness } from "../../../jobs/fairness.ts";
import { startWorker } from "../../../jobs/worker.ts";
import { silentLog } from "../../support/fakes.ts";
import { failedSoon } from "../../support/jobs.ts";

const [socket = "", prefix = "", endless] = process.argv.slice(2);
startWorker({
  lane: "reconcile",
  connection: connectWorker({ socket }, silentLog),
  prefix,
  concurrency: 1,
  fairness: createFairness(),
  log: silentLog,
  work: () => {
    process.stdout.write("started\n");
    return endless === undefined ? Promise.resolve(failedSoon) : new Promise(() => undefined);
  },
});
