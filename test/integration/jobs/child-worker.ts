/** A worker in a process of its own, for tests that kill it: prints `started` and never finishes its job. */
import { connectWorker } from "../../../src/redis/connection.ts";
import { createFairness } from "../../../jobs/fairness.ts";
import { startWorker } from "../../../jobs/worker.ts";
import { silentLog } from "../../support/fakes.ts";

const [socket = "", prefix = ""] = process.argv.slice(2);
startWorker({
  lane: "reconcile",
  connection: connectWorker({ socket }, silentLog),
  prefix,
  concurrency: 1,
  fairness: createFairness(),
  log: silentLog,
  timing: { lockMs: 1_000, stalledEveryMs: 300 },
  work: () => {
    process.stdout.write("started\n");
    return new Promise(() => undefined);
  },
});
