/** Connects the parts that work beside Flux's controllers. */
import type { Redis } from "ioredis";
import type { LaneFairness } from "../../jobs/fairness.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import { startFluxSweep } from "../../jobs/sweeps/flux-sweep.ts";
import { startWorker } from "../../jobs/worker.ts";
import type { WatchedFluxSources } from "../apis/flux/sources.ts";
import type { LiveConfig } from "../config/live.ts";
import { within } from "../kit/deadline.ts";
import { createFluxFetch } from "../flux/request-fetch.ts";
import type { SweepPaces } from "../intake/sweep-pace.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Clock, Sources } from "../ports.ts";

export interface FluxDeps {
  readonly live: LiveConfig;
  /** Watched by `startFluxWatch`. Absent: nothing is done for Flux. */
  readonly fluxSources: WatchedFluxSources | undefined;
  readonly sources: Pick<Sources, "heads" | "commitsAt">;
  readonly paces: Pick<SweepPaces, "everyMs">;
  readonly queue: JobQueue;
  readonly consumer: Redis;
  readonly fairness: LaneFairness;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface StartedFlux {
  /** Accepts no new jobs; running ones may continue for this long. */
  stop(drainMs: number): Promise<void>;
}

export interface FluxWatch {
  /** Whether pushes reach Flux, or there is no use in waiting for that. */
  isReady(): boolean;
  stop(): Promise<void>;
}

/** A list of thousands takes a few seconds; after this time, deployments do not wait for Flux any longer. */
const longestListMs = 30_000;

/**
 * Starts to watch GitRepositories, on each server that takes deliveries, whether or not it is the leader: a push that
 * reaches a server before it knows them does not reach Flux, and no later event makes up for it.
 */
export function startFluxWatch({
  fluxSources,
  log,
}: {
  readonly fluxSources: Pick<WatchedFluxSources, "start" | "stop" | "synced">;
  readonly log: Logger;
}): FluxWatch {
  // For good: if Flux is installed later, deployments do not wait for its list.
  let isReady = false;
  const giveUp = (): void => {
    if (!isReady && !fluxSources.synced())
      log.warn("Flux's GitRepositories have not been listed yet; pushes do not reach Flux until they are");
  };
  const watching = within(longestListMs, fluxSources.start(), giveUp, { ref: false })
    .catch((error: unknown) => log.error({ err: error }, "could not watch Flux's GitRepositories"))
    .finally(() => (isReady = true));
  return {
    isReady: () => (isReady ||= fluxSources.synced()),
    async stop() {
      await fluxSources.stop();
      await watching;
    },
  };
}

/** One patch each; the limit on requests to the API server applies in addition. */
const patchesAtOnce = 8;

/** Makes Flux fetch; if `flux.trigger` is off, removes requests of the time when that was different. */
export function startFlux(deps: FluxDeps): StartedFlux {
  const { live, fluxSources, sources, paces, queue, consumer, fairness, metrics, clock, log } = deps;
  if (fluxSources === undefined || !live.now.flux.trigger) return startRemoving(deps);
  const requestFetch = createFluxFetch({ sources: fluxSources, clock, log });
  const worker = startWorker({
    ...{ lane: "flux", connection: consumer, prefix: live.now.redis.prefix, fairness, log },
    concurrency: patchesAtOnce,
    work: requestFetch,
    observe: {
      started: (_request, waited) => metrics.jobWaited("flux", waited),
      finished: ({ cause }, result) => metrics.outside.fluxRequested(cause, result),
    },
  });
  const sweep = startFluxSweep({
    sources: fluxSources,
    // Never with Flux's Secrets: only with the logins that the server itself has for the host.
    heads: (url, signal) => sources.heads({ url, credentials: [] }, undefined, signal),
    commitsAt: (url, names, signal) => sources.commitsAt({ url, credentials: [] }, names, signal),
    everyMs: (repo) => paces.everyMs(repo),
    ...{ queue, clock, log },
  });
  return {
    async stop(drainMs) {
      await sweep.stop();
      await worker.stop(drainMs);
    },
  };
}

/**
 * Longer than a rolling update in which old and new servers differ in `flux.trigger`: a request that a server with a
 * worker is about to carry out is never removed.
 */
const abandonedAfterMs = 600_000;
const removeEveryMs = 60_000;

/** Without a worker, requests would wait, and be counted, for ever. */
function startRemoving({ queue, log }: Pick<FluxDeps, "queue" | "log">): StartedFlux {
  let removing: Promise<void> | undefined;
  const timer = setInterval(() => {
    removing ??= queue
      .removeOld("flux", abandonedAfterMs)
      .catch((error: unknown) => {
        // Redis is unavailable, which its monitoring reports. The next time removes the same.
        log.debug({ error: (error as Error).message }, "could not remove requests to Flux");
      })
      .finally(() => (removing = undefined));
  }, removeEveryMs);
  return {
    async stop() {
      clearInterval(timer);
      await removing;
    },
  };
}
