/** `towline get queue`: active, waiting and failed jobs, and when they are retried. */
import { createFairness } from "../../jobs/fairness.ts";
import { createQueue } from "../../jobs/queue.ts";
import { createReports } from "../redis/reports.ts";
import { explainJobs } from "../app/explain-jobs.ts";
import { type Key, keyText } from "../model.ts";
import { createRetries } from "../reconcile/retries.ts";
import type { PageJob } from "../web/facts.ts";
import { type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { ageText, type Format, isForPeople, listing, orDash, outputOption } from "./output.ts";
import { withServerStore } from "./server-store.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly output: Format;
}

const help = `
Lists up to 20 jobs per lane and state. The queue is stored in the server's Redis, so this command needs the server's
configuration. The reason is read from the status of the deployment or from the report of the preview.

  STATE  active, waiting, delayed (until NEXT), or failed (retried at NEXT, on a new commit or on request)
  AGE    Time since the job started, was queued or failed
  NEXT   Time of the next attempt, estimated as after a restart of the server; it may be earlier
  WHY    Why the job failed or is delayed

Examples:
  towline get queue
  towline get queue -n shop -o wide
  towline get queue -o json | jq '.[] | select(.state == "failed")'

Exit codes:
  0  Success
  1  Cannot reach the cluster or Redis
  2  Invalid command line or configuration`;

export const defineGetQueue: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const jobs = await withServerStore({ env, flags, err }, async ({ cluster, found, connection, prefix, log }) => {
        const byKey = new Map(found.map(({ deployment }) => [keyText(deployment.key), deployment]));
        const queue = createQueue({ connection, prefix, fairness: createFairness(), log });
        try {
          const now = Date.now();
          const listed = (await queue.jobs()).filter(
            ({ request }) =>
              !cluster.areNamed || request.kind !== "reconcile" || byKey.has(keyText(request.deployment)),
          );
          return await explainJobs(listed, {
            find: (key: Key) => byKey.get(keyText(key)),
            reports: createReports({ connection, prefix }),
            retries: createRetries({ now: () => now }),
            now,
          });
        } finally {
          await queue.close();
        }
      });
      if (jobs.length === 0 && isForPeople(flags.output)) out("No active, waiting or failed jobs.\n");
      else out(listing(flags.output, jobs, columns, toTable));
    });
};

function toTable(jobs: readonly PageJob[]): string {
  const now = Date.now();
  const rows = jobs.map(({ lane, subject, state, at, tries, nextAt, why }) => [
    lane,
    subject,
    state,
    ageText(now - at),
    String(tries),
    nextAt === undefined ? "–" : nextAt <= now ? "now" : `in ${ageText(nextAt - now)}`,
    plain(orDash(why)),
  ]);
  return table([["LANE", "SUBJECT", "STATE", "AGE", "TRIES", "NEXT", "WHY"], ...rows]);
}
