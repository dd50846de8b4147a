/** `towline get queue`: what runs, waits and failed, and when it is tried again. */
import { createFairness } from "../../jobs/fairness.ts";
import { createQueue } from "../../jobs/queue.ts";
import { createReports } from "../../jobs/reports.ts";
import { explainJobs } from "../app/explain-jobs.ts";
import { type Key, keyText } from "../model.ts";
import { createRetries } from "../reconcile/retries.ts";
import type { PageJob } from "../../routes/page-facts.ts";
import { type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define } from "./commands.ts";
import { ageText, type Format, isForPeople, listing, orDash, outputOption } from "./output.ts";
import { withServerMemory } from "./server-memory.ts";
import { plain, table } from "./table.ts";

interface Flags extends ClusterFlags {
  readonly output: Format;
}

const help = `
Up to 20 jobs of each lane and state. The queue is in the server's Redis, so that this needs the server's configuration; why a
deployment failed is read from its status, why a preview failed from its report.

  STATE  active, waiting, delayed (until NEXT), or failed: not tried again before NEXT, a new commit or a request
  AGE    since it began, was queued, or failed
  NEXT   when it is tried again; as the server plans it after a restart, so that it may be sooner
  WHY    why it failed or is delayed

  towline get queue
  towline get queue -n shop -o wide
  towline get queue -o json | jq '.[] | select(.state == "failed")'

Exit codes:
  0  it is shown
  1  cannot reach the cluster or Redis
  2  the command line or the configuration is wrong`;

export const defineGetQueue: Define = (command, { env, columns, out, err }) => {
  withClusterFlags(command)
    .addOption(outputOption())
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const jobs = await withServerMemory({ env, flags, err }, async ({ cluster, found, connection, prefix, log }) => {
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
      if (jobs.length === 0 && isForPeople(flags.output)) out("Nothing runs, waits or has failed.\n");
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
