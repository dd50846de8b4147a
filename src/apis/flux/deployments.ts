/** What Flux's controllers apply: Kustomizations, and HelmReleases with their charts. Watched, never written. */
import type { KubeClient } from "../../kube/client.ts";
import { listKind } from "../../kube/kind.ts";
import { readOrNothing } from "../../kube/read-or-nothing.ts";
import type { JsonObject } from "../../kit/json.ts";
import { type FluxChart, type FluxDeployment, type Key, keyText } from "../../model.ts";
import type { FluxDeployments, OnResourceChange } from "../../ports.ts";
import { parseHelmChart, parseHelmRelease } from "./helm-release.ts";
import { parseKustomization } from "./kustomization.ts";
import { createWatchedKind, type WatchedKindDeps } from "./watched-kind.ts";

export interface WatchedFluxDeployments extends FluxDeployments {
  /** Starts to watch. Resolves once all have been listed, or it is known that the cluster has none. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const kustomizations = {
  apiVersion: "kustomize.toolkit.fluxcd.io/v1",
  plural: "kustomizations",
  what: "Flux's Kustomizations",
  parse: parseKustomization,
} as const;

const releases = {
  apiVersion: "helm.toolkit.fluxcd.io/v2",
  plural: "helmreleases",
  what: "Flux's HelmReleases",
  parse: parseHelmRelease,
} as const;

const charts = {
  apiVersion: "source.toolkit.fluxcd.io/v1",
  plural: "helmcharts",
  what: "Flux's HelmCharts",
  parse: parseHelmChart,
} as const;

type KeyedChart = FluxChart & { readonly key: Key };

export function createFluxDeployments(
  deps: Pick<WatchedKindDeps<FluxDeployment>, "client" | "namespaces" | "log" | "lookEveryMs" | "retryMs">,
): WatchedFluxDeployments {
  const listeners: OnResourceChange<FluxDeployment>[] = [];
  const onChange: OnResourceChange<FluxDeployment> = (before, after) => {
    const [previous, current] = [before && withChart(before), after && withChart(after)];
    for (const listener of listeners) listener(previous, current);
  };
  const kustomized = createWatchedKind<FluxDeployment>({ ...deps, ...kustomizations, onChange });
  const released = createWatchedKind<FluxDeployment>({ ...deps, ...releases, onChange });
  const charted = createWatchedKind<KeyedChart>({
    ...deps,
    ...charts,
    onChange(before, after) {
      const key = (after ?? before)?.key;
      const changed = released.all().filter(({ chartKey }) => chartKey && key && keyText(chartKey) === keyText(key));
      for (const one of changed) for (const listener of listeners) listener(joined(one, before), joined(one, after));
    },
  });
  const watched = [kustomized, released, charted];

  function withChart(deployment: FluxDeployment): FluxDeployment {
    return joined(deployment, deployment.chartKey && charted.find(deployment.chartKey));
  }

  return {
    start: async () => void (await Promise.all(watched.map((one) => one.start()))),
    stop: async () => void (await Promise.all(watched.map((one) => one.stop()))),
    synced: (kind) => (kind === undefined ? watched : [kustomized]).every((one) => one.synced()),
    all: () => [...kustomized.all(), ...released.all().map(withChart)],
    find: (key) => kustomized.find(key),
    async read({ kind, key }, signal) {
      const [of, parse] =
        kind === "Kustomization" ? [kustomized, parseKustomization] : ([released, parseHelmRelease] as const);
      const found = parse(await readOrNothing(deps.client, of.pathOf(key), signal));
      return found && withChart(found);
    },
    kustomization: async (key, signal) =>
      (await readOrNothing(deps.client, kustomized.pathOf(key), signal)) as JsonObject | undefined,
    onChange: (callback) => void listeners.push(callback),
  };
}

function joined(deployment: FluxDeployment, chart: FluxChart | undefined): FluxDeployment {
  return chart === undefined ? deployment : { ...deployment, chart, source: deployment.source ?? chart.source };
}

/** Lists them once, without the charts; `undefined` if the cluster does not have their definitions. Throws ApiError. */
export async function listFluxDeployments(
  client: Pick<KubeClient, "list" | "request">,
  namespaces: readonly string[],
  labelSelector?: string,
): Promise<readonly FluxDeployment[] | undefined> {
  const lists = await Promise.all(
    [kustomizations, releases].map((kind) => listKind(client, kind, namespaces, labelSelector)),
  );
  return lists.every((list) => list === undefined) ? undefined : lists.flatMap((list) => list ?? []);
}
