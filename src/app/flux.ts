/** Connects the parts that work beside Flux's controllers. Only created if one of the `flux` keys is set. */
import type { Redis } from "ioredis";
import type { LaneFairness } from "../../jobs/fairness.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import { startFluxSweep } from "../../jobs/sweeps/flux-sweep.ts";
import { startWorker } from "../../jobs/worker.ts";
import type { WatchedFluxSources } from "../apis/flux/sources.ts";
import type { LiveConfig } from "../config/live.ts";
import { createFluxFetch } from "../flux/request-fetch.ts";
import type { SweepPaces } from "../intake/sweep-pace.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Clock, Sources } from "../ports.ts";

export interface FluxDeps {
  readonly live: LiveConfig;
  /** Absent: nothing is done for Flux. */
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

/** One patch each; the limit on requests to the API server applies in addition. */
const patchesAtOnce = 8;

/** Returns `undefined` if nothing is done for Flux. */
export function startFlux(deps: FluxDeps): StartedFlux | undefined {
  const { live, fluxSources, sources, paces, queue, consumer, fairness, metrics, clock, log } = deps;
  if (fluxSources === undefined) return undefined;
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
  const watching = fluxSources.start().catch((error: unknown) => {
    log.error({ err: error }, "could not watch Flux's GitRepositories");
  });
  return {
    async stop(drainMs) {
      await sweep.stop();
      await worker.stop(drainMs);
      await fluxSources.stop();
      await watching;
    },
  };
}
