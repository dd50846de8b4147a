/** The KluctlDeployments of both APIs, as the server sees them: if both have the same name, the legacy one is ignored. */
import { ApiError, ConfigError } from "../errors.ts";
import { addressOf, isLegacy } from "../apis/asking.ts";
import type { KubeClient } from "../kube/client.ts";
import { toEntry } from "../apis/flux-kluctl/entry.ts";
import { createGitRepositoryReader, readOrNothing } from "../apis/flux-kluctl/git-repositories.ts";
import { legacyCollection, legacyPath, type LegacyResource, parseLegacy } from "../apis/flux-kluctl/resource.ts";
import { referencesOf } from "../apis/flux-kluctl/translate-spec.ts";
import { keyText } from "../model.ts";
import {
  byName,
  type ClusterConfig,
  type FoundDeployment,
  listDeployments,
  readDeployment,
  whyUnwatched,
} from "./cluster.ts";

export interface BothOptions extends Pick<ClusterConfig, "namespaces" | "areNamed" | "watched"> {
  readonly selector?: string | undefined;
  /** Receives warnings about what could not be read. */
  readonly err: (text: string) => void;
}

/**
 * Sorted by namespace and name. Warns about namespaces that do not exist or are not watched; throws if a namespace that the
 * user named does not exist.
 */
export async function listOfBothApis(
  client: Pick<KubeClient, "list" | "request">,
  options: BothOptions,
): Promise<readonly FoundDeployment[]> {
  const { selector, namespaces, areNamed, err } = options;
  const found = await listBoth(client, options).catch((error: unknown) => {
    if (selector === undefined || !(error instanceof ApiError && error.status === 400)) throw error;
    throw new ConfigError(
      `--selector: ${JSON.stringify(selector)} is not a label selector (${error.message}); use a form such as team=shop,tier!=db`,
    );
  });
  const places = new Set(found.map(({ deployment }) => deployment.key.namespace));
  for (const namespace of new Set([...namespaces, ...places])) {
    if (!places.has(namespace) && !(await mayExist(client, namespace))) {
      const words = `namespace ${namespace} does not exist`;
      if (areNamed) throw new Error(words);
      err(`${words}\n`);
    }
    const why = whyUnwatched(namespace, options);
    if (why !== undefined) err(`${why}\n`);
  }
  return found;
}

/** True as well if the caller may not read namespaces. */
async function mayExist(client: Pick<KubeClient, "request">, namespace: string): Promise<boolean> {
  try {
    return (await readOrNothing(client, `/api/v1/namespaces/${encodeURIComponent(namespace)}`)) !== undefined;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return true;
    throw error;
  }
}

async function listBoth(
  client: Pick<KubeClient, "list" | "request">,
  options: BothOptions,
): Promise<readonly FoundDeployment[]> {
  const { namespaces, selector } = options;
  const older = await listLegacy(client, options);
  const newer = await listDeployments(client, namespaces, selector, { mayBeMissing: older !== undefined });
  const taken = new Set(newer.map(({ deployment }) => keyText(deployment.key)));
  return [...newer, ...(older ?? []).filter(({ deployment }) => !taken.has(keyText(deployment.key)))].sort(byName);
}

/** Returns a function that reads a deployment of either API again; `undefined` once it is deleted. */
export function createReader(client: Pick<KubeClient, "request">) {
  const repositories = createGitRepositoryReader(client);
  return async ({ deployment }: FoundDeployment): Promise<FoundDeployment | undefined> => {
    if (!isLegacy(deployment)) return readDeployment(client, deployment.key);
    const resource = parseLegacy(await readOrNothing(client, addressOf(deployment.key, true)));
    return resource && (await toFoundLegacy(resource, repositories))[0];
  };
}

/** `undefined` if the cluster does not have that API. */
async function listLegacy(
  client: Pick<KubeClient, "list" | "request">,
  { namespaces, selector: labelSelector, err }: BothOptions,
): Promise<readonly FoundDeployment[] | undefined> {
  const api = (await readOrNothing(client, legacyPath)) as { resources?: { name?: string }[] } | undefined;
  if (api?.resources?.some(({ name }) => name === "kluctldeployments") !== true) return undefined;
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  try {
    const lists = await Promise.all(
      places.map((place) => client.list(legacyCollection(place), { query: { labelSelector } })),
    );
    const repositories = createGitRepositoryReader(client);
    const resources = lists.flatMap(({ items }) => items.flatMap((item) => parseLegacy(item) ?? []));
    return (await Promise.all(resources.map((resource) => toFoundLegacy(resource, repositories)))).flat();
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    err(`deployments of the legacy API (flux.kluctl.io) are not shown: ${error.message}\n`);
    return [];
  }
}

async function toFoundLegacy(
  resource: LegacyResource,
  repositories: ReturnType<typeof createGitRepositoryReader>,
): Promise<FoundDeployment[]> {
  const { gitRepository: named } = referencesOf(resource.spec);
  const key = named && { namespace: named.namespace || resource.metadata.namespace, name: named.name };
  const deployment = toEntry(resource, { gitRepository: key && (await repositories.get(key)) });
  return deployment === undefined ? [] : [{ deployment, resource }];
}
