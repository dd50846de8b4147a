/** Newer commits that wait, for lists: from the server's Redis if that is configured here, otherwise what the statuses say. */
import { findJobs } from "../../jobs/queued.ts";
import type { Config } from "../config.ts";
import { type AnyDeployment, keyText } from "../model.ts";
import { createDeliveries } from "../redis/deliveries.ts";
import { createRetries } from "../reconcile/retries.ts";
import {
  findNewerCommits,
  mayHaveNewerCommit,
  type NewerCommit,
  type NewerCommitsFacts,
} from "../views/newer-commit.ts";
import type { OpenRedis } from "./redis.ts";

export interface NewerCommitsOptions {
  readonly config: Pick<Config, "redis" | "forges">;
  /** Absent: it is not configured here. */
  readonly redis: OpenRedis | undefined;
  /** Receives a warning if Redis does not answer. */
  readonly err: (text: string) => void;
  readonly now: number;
}

/** By `namespace/name`. Never throws. */
export async function readNewerCommits(
  deployments: readonly AnyDeployment[],
  { config, redis, err, now }: NewerCommitsOptions,
): Promise<ReadonlyMap<string, NewerCommit>> {
  const retries = createRetries({ now: () => now });
  const nothing = { jobs: new Map(), deliveries: [] };
  const known = await (redis ? readKnown(deployments, config, redis) : Promise.resolve(nothing)).catch(
    (error: unknown) => {
      err(`which newer commits are queued is not known: ${error instanceof Error ? error.message : String(error)}\n`);
      return nothing;
    },
  );
  return findNewerCommits(deployments, { ...known, retryAtOf: (one) => retries.nextAt(one), now });
}

/** The deliveries are read only if some deployment may have a newer commit. */
async function readKnown(
  deployments: readonly AnyDeployment[],
  { redis: { prefix }, forges }: NewerCommitsOptions["config"],
  { connection, log }: OpenRedis,
): Promise<Pick<NewerCommitsFacts, "jobs" | "deliveries">> {
  const jobs = await findJobs(
    connection,
    prefix,
    deployments.map(({ key }) => key),
  );
  if (!deployments.some((one) => mayHaveNewerCommit(one, jobs.get(keyText(one.key))))) return { jobs, deliveries: [] };
  const all = createDeliveries({ connection, prefix, log });
  return { jobs, deliveries: (await Promise.all(forges.map(({ id }) => all.latest(id)))).flat() };
}
