/** Connects the previews of what Flux applies. */
import { createApiProxy } from "../api-proxy/api-proxy.ts";
import type { WatchedFluxDeployments } from "../apis/flux/deployments.ts";
import type { WatchedFluxSources } from "../apis/flux/sources.ts";
import type { LiveConfig } from "../config/live.ts";
import { type ApiLoginsDeps, createApiLogins } from "../kube/api-logins.ts";
import { createPreviewClusters } from "../kube/preview-clusters.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Clock, FluxRenderer, Queue, Reports } from "../ports.ts";
import type { FluxPreviewsDeps } from "../preview/flux/compare-flux.ts";
import { startFluxPreviewWatch } from "../reporting/flux-preview-watch.ts";

export interface FluxPreviewsParts {
  readonly live: LiveConfig;
  /** Watched by `startFluxWatch`. */
  readonly fluxSources: WatchedFluxSources | undefined;
  /** Watched by `startFluxReports`. */
  readonly fluxDeployments: WatchedFluxDeployments | undefined;
  readonly fluxRenderer: FluxRenderer;
  readonly client: ApiLoginsDeps["client"];
  readonly reports: Pick<Reports, "open" | "stale">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface StartedFluxPreviews {
  readonly deps: FluxPreviewsDeps;
  stop(): Promise<void>;
}

/** `undefined` without `flux.previews`. */
export function startFluxPreviews(parts: FluxPreviewsParts): StartedFluxPreviews | undefined {
  const { live, fluxSources, fluxDeployments, client, reports, queue, metrics, clock, log } = parts;
  const { kubernetes, flux, preview } = live.now;
  if (!flux.previews || fluxSources === undefined || fluxDeployments === undefined) return undefined;
  const allowServerLogin = () => preview.isolation !== "required";
  const logins = createApiLogins({ kubernetes, client, allowServerLogin });
  const proxy = createApiProxy({ login: (run) => logins.login(run), log });
  const clusters = createPreviewClusters({
    open: (run) => proxy.open(run),
    observe: {
      request: (...asked) => metrics.outside.kubernetesAsked(...asked),
      heldBack: (seconds) => metrics.outside.kubernetesHeldBack(seconds),
    },
  });
  const stopWatch = startFluxPreviewWatch({ fluxSources, fluxDeployments, reports, queue, clock, log });
  return {
    deps: {
      sources: fluxSources,
      deployments: fluxDeployments,
      // HelmReleases are no part of previews, so that a cluster that cannot list them stops none.
      isLoading: () => !fluxSources.synced() || !fluxDeployments.synced("Kustomization"),
      renderer: parts.fluxRenderer,
      clusters,
    },
    async stop() {
      stopWatch();
      await proxy.close();
      logins.close();
    },
  };
}
