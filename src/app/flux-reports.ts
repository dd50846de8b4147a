/** Connects the reports of what Flux applies. */
import type { WatchedFluxDeployments } from "../apis/flux/deployments.ts";
import type { WatchedFluxSources } from "../apis/flux/sources.ts";
import { knownSecrets } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import type { Logger } from "../log.ts";
import type { Forge, Queue, Reports, Sources } from "../ports.ts";
import { createRedactor } from "../redact/redactor.ts";
import { createFluxStatuses, type FluxStatuses } from "../reporting/flux-statuses.ts";
import { startFluxReportWatch } from "../reporting/flux-watch.ts";

export interface FluxReportsDeps {
  readonly live: LiveConfig;
  /** Watched by `startFluxWatch`. */
  readonly fluxSources: WatchedFluxSources | undefined;
  /** Absent: nothing is reported or previewed of what Flux applies. */
  readonly fluxDeployments: WatchedFluxDeployments | undefined;
  readonly forges: ReadonlyMap<string, Forge>;
  readonly sources: Pick<Sources, "heads" | "commitsAt" | "contains">;
  readonly reports: Pick<Reports, "unsettled">;
  readonly queue: Pick<Queue, "enqueue" | "lastMove">;
  readonly log: Logger;
}

export interface FluxReports {
  /** `undefined` without `flux.statuses`. */
  readonly statuses: FluxStatuses | undefined;
  stop(): Promise<void>;
}

/** Watches what Flux applies. Only on the leader: another server has no workers that report. */
export function startFluxReports(deps: FluxReportsDeps): FluxReports | undefined {
  const { live, fluxSources, fluxDeployments, forges, sources, reports, queue, log } = deps;
  if (fluxSources === undefined || fluxDeployments === undefined) return undefined;
  const { statuses } = live.now.flux;
  const stopWatch = statuses
    ? startFluxReportWatch({ fluxSources, fluxDeployments, forges, reports, queue, log })
    : undefined;
  const watching = fluxDeployments
    .start()
    .catch((error: unknown) => log.error({ err: error }, "could not watch what Flux applies"));
  return {
    statuses: statuses
      ? createFluxStatuses({
          ...{ fluxSources, fluxDeployments, sources, log },
          lastMove: queue.lastMove.bind(queue),
          createMask: () => createRedactor(knownSecrets(live.now)).text,
        })
      : undefined,
    async stop() {
      stopWatch?.();
      await fluxDeployments.stop();
      await watching;
    },
  };
}
