/** Asks the git host why webhooks of a repository do not arrive, and records the answer with the missed pushes. */
import { ForgeError } from "../errors.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { withTimeout } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { HostWebhook, MissedPushes, MissReason } from "../model.ts";
import type { Clock, HostWebhooks, MissedPushStore } from "../ports.ts";
import { acceptedIds } from "./redeliveries.ts";
import { describeMissReason, findMissReason, type ReadWebhook } from "./why-missed.ts";

export interface ExplainMissedDeps {
  /** `undefined`: the forge has no login for its API. */
  readonly webhooksOf: (forge: string) => HostWebhooks | undefined;
  /** `undefined` if the repository is not on the forge. */
  readonly repoNameOf: (forge: string, repo: string) => string | undefined;
  readonly deliveries: { latest(forge: string): Promise<readonly DeliveryRecord[]> };
  readonly store: Pick<MissedPushStore, "saveReason">;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface ExplainMissed {
  /** Returns at once and never throws. One host is asked at a time, about each repository rarely. */
  explain(forge: string, missed: MissedPushes): void;
  stop(): Promise<void>;
}

const againMs = 10 * 60_000;
const limitMs = 60_000;
/** A push was delivered before the sweep found it: up to an interval before, and clocks differ. */
const earlierMs = 3_600_000;
const mostRepositories = 1_000;

export function createExplainMissed(deps: ExplainMissedDeps): ExplainMissed {
  const { deliveries, store, clock, log } = deps;
  const stopped = new AbortController();
  const explained = createBoundedMap<number>({ entries: mostRepositories });
  let queue: Promise<void> = Promise.resolve();

  async function explainNow(forge: string, missed: MissedPushes): Promise<void> {
    const { repo, since } = missed;
    const reason = await ask(forge, missed);
    stopped.signal.throwIfAborted();
    await store.saveReason(forge, repo, reason);
    const { why, advice } = describeMissReason(reason, forge);
    const at = new Date(since).toISOString();
    if (reason.kind !== missed.reason?.kind) log.warn({ forge, repo, since: at, advice }, `webhooks missing: ${why}`);
  }

  async function ask(forge: string, { repo, since }: MissedPushes): Promise<MissReason> {
    const webhooks = deps.webhooksOf(forge);
    if (webhooks === undefined) return { kind: "unreadable", detail: "the forge has no login for its API" };
    const repoName = deps.repoNameOf(forge, repo);
    if (repoName === undefined) return { kind: "unreadable", detail: "the repository is not on the host of the API" };
    const signal = withTimeout(limitMs, stopped.signal);
    try {
      const { ours, similar } = await webhooks.find(repoName, signal);
      const read: ReadWebhook[] = [];
      for (const hook of ours) read.push(await readAttempts(hook, since - earlierMs, signal));
      return findMissReason(read, similar, acceptedIds(await deliveries.latest(forge)));
    } catch (error) {
      if (!(error instanceof ForgeError) || error.problem === "rate-limited") throw error;
      return { kind: "unreadable", detail: error.message };
    }
  }

  return {
    explain(forge, missed) {
      const key = `${forge} ${missed.repo}`;
      const now = clock.now();
      if (now - (explained.get(key) ?? -Infinity) < againMs) return;
      explained.set(key, now);
      queue = queue.then(async () => {
        if (stopped.signal.aborted) return;
        await explainNow(forge, missed).catch((error: unknown) => {
          // Redis is unavailable, which its monitoring reports, or the host is slow or wants no requests at present.
          if (error instanceof ForgeError && error.problem === "rate-limited") explained.delete(key);
          log.debug(
            { forge, repo: missed.repo, error: (error as Error).message },
            "could not explain missing webhooks",
          );
        });
      });
    },
    async stop() {
      stopped.abort();
      await queue;
    },
  };
}

async function readAttempts(hook: HostWebhook, since: number, signal: AbortSignal): Promise<ReadWebhook> {
  return { hook, attempts: await hook.attempts?.(since, signal) };
}
