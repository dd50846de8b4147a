/** Checks whether what Flux applies can be reported as commit statuses. */
import { ApiError } from "../errors.ts";
import { type FluxDeployment, type FluxSource, followedBy, type Key, keyText } from "../model.ts";
import { memberOf } from "../reporting/flux-members.ts";
import { type Finding, ok, warning } from "./finding.ts";

type Listed<T> = readonly T[] | undefined;

/** Takes the resources, or `undefined` if the cluster does not have their definition. */
export async function examineFluxStatuses(
  reading: Promise<readonly [Listed<FluxSource>, Listed<FluxDeployment>]>,
  forges: readonly { readonly token?: unknown; readonly app?: unknown }[],
): Promise<readonly Finding[]> {
  const subject = "Kustomizations and HelmReleases of Flux";
  let sources: Listed<FluxSource>;
  let deployments: Listed<FluxDeployment>;
  try {
    [sources, deployments] = await reading;
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    const advice = "grant it get, list and watch on the kinds in docs/flux.md";
    return [warning(subject, "the server's account may not list them, or not their GitRepositories", advice)];
  }
  if (deployments === undefined) {
    const advice = "install Flux 2.0 or newer, or remove flux.statuses; the server watches for the definition";
    const words =
      "the cluster has neither kustomize.toolkit.fluxcd.io/v1 nor helm.toolkit.fluxcd.io/v2: flux.statuses has no effect";
    return [warning(subject, words, advice)];
  }
  const resources = {
    fluxSources: findIn(sources?.filter(({ ref }) => followedBy(ref).kind !== "commit")),
    fluxDeployments: findIn(deployments.filter(({ kind }) => kind === "Kustomization")),
  };
  const reported = deployments.filter((one) => memberOf(one, resources));
  return [
    forges.some(({ token, app }) => token ?? app)
      ? ok(
          subject,
          `${reported.length} of ${deployments.length} get their content from a GitRepository, and get commit statuses`,
        )
      : warning(
          subject,
          "the server can log in to no git host: flux.statuses has no effect",
          "give the git host in `forges` a token or an app: docs/pull-requests.md",
        ),
  ];
}

function findIn<T extends { readonly key: Key }>(listed: Listed<T>): { find(key: Key): T | undefined } {
  const byKey = new Map((listed ?? []).map((one) => [keyText(one.key), one]));
  return { find: (key) => byKey.get(keyText(key)) };
}
