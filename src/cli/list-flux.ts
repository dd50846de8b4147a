/** What Flux applies, as the cluster has it. */
import { listFluxDeployments } from "../apis/flux/deployments.ts";
import { listFluxSources } from "../apis/flux/sources.ts";
import { ApiError } from "../errors.ts";
import { compareText } from "../kit/compare-text.ts";
import type { KubeClient } from "../kube/client.ts";
import { keyText } from "../model.ts";
import { type FluxState, fluxStateOf } from "../views/flux-state.ts";
import type { ListOptions } from "./list-deployments.ts";

/** Sorted by namespace and name. Empty if the cluster does not have Flux; warns about what may not be read. */
export async function listFluxStates(
  client: Pick<KubeClient, "list" | "request">,
  { namespaces, selector, err }: Pick<ListOptions, "namespaces" | "selector" | "err">,
): Promise<readonly FluxState[]> {
  const warn = (what: string) => (error: unknown) => {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    err(`${what}: ${error.message}\n`);
    return undefined;
  };
  const found =
    (await listFluxDeployments(client, namespaces, selector).catch(warn("what Flux applies is not shown"))) ?? [];
  const places = [...new Set(found.flatMap(({ source }) => source?.namespace ?? []))];
  const listed =
    places.length === 0
      ? []
      : await listFluxSources(client, namespaces.length === 0 ? [] : places).catch(
          warn("the GitRepositories of Flux are not shown"),
        );
  const sources = new Map((listed ?? []).map((source) => [keyText(source.key), source]));
  const states = found.map((one) => fluxStateOf(one, one.source && sources.get(keyText(one.source))));
  return states.toSorted((a, b) => compareText(keyText(a), keyText(b)) || compareText(a.kind, b.kind));
}
