/** Reads from Redis what the queue holds at the end of an episode. */
import type { Redis } from "ioredis";
import type { FailedJob, Rest } from "./history.ts";
import type { EpisodeRedis } from "./redis.ts";

type QueueState = Pick<Rest, "queued" | "failed" | "strayKeys"> & { readonly begun: readonly BegunJob[] };

/** An attempt at a job. */
export interface BegunJob {
  readonly lane: string;
  /** Name of the deployment, or what else the job is about. */
  readonly subject: string;
}

/** `sinceMs`: how long ago an attempt may have begun. `mayLeaveCauses`: see `isStray`. */
export async function readQueue(
  redis: Pick<EpisodeRedis, "ask">,
  sinceMs: number,
  mayLeaveCauses: boolean,
): Promise<QueueState> {
  const found = await redis.ask(async (client): Promise<QueueState> => {
    const keys = await client.keys("chaos:*");
    const queued: string[] = [];
    const known = new Set<string>();
    for (const key of keys) {
      const [, lane, state] = jobStates.exec(key) ?? [];
      if (state === undefined) continue;
      const isList = (await client.type(key)) === "list";
      const ids = isList ? await client.lrange(key, 0, -1) : await client.zrange(key, "0", "-1");
      const jobs = ids.filter((id) => !id.startsWith("0:"));
      for (const id of jobs) known.add(`${lane}:${id}`);
      if (!/completed|failed/.test(state)) queued.push(...jobs.map((id) => `${lane} job ${id} (${state})`));
    }
    // Checked only while no job is queued: otherwise the keys may belong to jobs that arrived in between.
    const strayKeys = queued.length > 0 ? [] : keys.filter((key) => isStray(key, known, mayLeaveCauses));
    const lanes = keys.flatMap((key) => /^chaos:(\w+):events$/.exec(key)?.[1] ?? []);
    const begun = (await Promise.all(lanes.map((lane) => readBegun(client, lane, sinceMs)))).flat();
    const failed = (await Promise.all(lanes.map((lane) => readFailed(client, lane)))).flat();
    return { queued, failed, strayKeys, begun };
  });
  return found ?? { queued: ["Redis does not answer"], failed: [], strayKeys: [], begun: [] };
}

const jobStates = /^chaos:(\w+):(wait|active|paused|prioritized|delayed|completed|failed)$/;

async function readBegun(client: Redis, lane: string, sinceMs: number): Promise<BegunJob[]> {
  const events = await readEvents(client, lane, String(Date.now() - sinceMs));
  const ids = new Set(events.filter(({ event }) => event === "active").map(({ id }) => id));
  return Promise.all([...ids].map(async (id) => ({ lane, subject: await subjectOf(client, lane, id) })));
}

async function readFailed(client: Redis, lane: string): Promise<FailedJob[]> {
  const ids = await client.zrange(`chaos:${lane}:failed`, "0", "-1");
  if (ids.length === 0) return [];
  const events = await readEvents(client, lane, "-");
  return Promise.all(
    ids.map(async (id) => ({
      lane,
      subject: await subjectOf(client, lane, id),
      reason: (await client.hget(`chaos:${lane}:${id}`, "failedReason")) ?? "",
      // Of the harness's own clock, unlike the times in the job. Redis keeps a limited number of events.
      at: events.findLast((one) => one.id === id && one.event === "failed")?.at,
    })),
  );
}

async function readEvents(client: Redis, lane: string, from: string) {
  const entries = await client.xrange(`chaos:${lane}:events`, from, "+");
  return entries.map(([entry, fields]) => {
    const field = (name: string) => fields[fields.indexOf(name) + 1] ?? "";
    return { at: Number(entry.split("-")[0]), event: field("event"), id: field("jobId") };
  });
}

/** The deployment's name or, for other jobs, the whole subject. */
async function subjectOf(client: Redis, lane: string, id: string): Promise<string> {
  const subject = (await client.hget(`chaos:${lane}:${id}`, "deid")) ?? `job ${id}`;
  return /^reconcile:[^/]+\/(.+)$/.exec(subject)?.[1] ?? subject;
}

/**
 * True for a key that Redis holds for a job besides the job lists and that must not outlive the job. The causes of
 * requests may stay until the subject's next job, or for seven days: if an older version took the job, because only versions that
 * know them remove them, or if a server was killed after it recorded a cause and before it created the job.
 */
function isStray(key: string, known: ReadonlySet<string>, mayLeaveCauses: boolean): boolean {
  const [, lane, id] = /^chaos:(\w+):([0-9a-f]{8}-[0-9a-f-]{27})$/.exec(key) ?? [];
  if (id !== undefined) return !known.has(`${lane}:${id}`);
  if (key.startsWith("chaos:causes:")) return !mayLeaveCauses;
  return /^chaos:\w+:(?:[^:]+:lock$|de:|dn:)/.test(key);
}
