/** The deployments of all APIs, as the server sees them: if several have a name, the first API wins. */
import { collectionPath, type DeploymentApi, groupOf, isServed, resourcePath } from "../apis/api.ts";
import { apiOf, deploymentApis } from "../apis/apis.ts";
import { ApiError, ConfigError } from "../errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { readOrNothing } from "../kube/read-or-nothing.ts";
import { keyText } from "../model.ts";
import { byName, type ClusterConfig, type FoundDeployment, whyUnwatched } from "./cluster.ts";

export interface ListOptions extends Pick<ClusterConfig, "namespaces" | "areNamed" | "watched"> {
  readonly selector?: string | undefined;
  /** Receives warnings about what could not be read. */
  readonly err: (text: string) => void;
}

/**
 * Sorted by namespace and name. Warns about namespaces that do not exist or are not watched; throws if a namespace that the
 * user named does not exist.
 */
export async function listAllDeployments(
  client: Pick<KubeClient, "list" | "request">,
  options: ListOptions,
): Promise<readonly FoundDeployment[]> {
  const { selector, namespaces, areNamed, err } = options;
  const found = await listEach(client, options).catch((error: unknown) => {
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

async function listEach(
  client: Pick<KubeClient, "list" | "request">,
  options: ListOptions,
): Promise<readonly FoundDeployment[]> {
  const lists = await Promise.all(deploymentApis.map((api) => listOf(client, api, options)));
  if (lists.every((list) => list === undefined)) {
    throw new Error(
      "the cluster has no KluctlDeployment CRD; install it: kubectl apply --server-side -f chart/files/kluctldeployments.yaml",
    );
  }
  const found = new Map<string, FoundDeployment>();
  for (const one of lists.flatMap((list) => list ?? [])) {
    const name = keyText(one.deployment.key);
    if (!found.has(name)) found.set(name, one);
  }
  return [...found.values()].sort(byName);
}

/** `undefined` if the cluster does not have that API. */
async function listOf(
  client: Pick<KubeClient, "list" | "request">,
  api: DeploymentApi,
  { namespaces, selector: labelSelector, err }: ListOptions,
): Promise<readonly FoundDeployment[] | undefined> {
  if (api.isOptional && !(await isServed(client, api))) return undefined;
  const places = namespaces.length === 0 ? [undefined] : namespaces;
  try {
    const lists = await Promise.all(
      places.map((place) => client.list(collectionPath(api, place), { query: { labelSelector } })),
    );
    const toFound = createTranslator(client, api);
    return (await Promise.all(lists.flatMap(({ items }) => items.map(toFound)))).flatMap((found) => found ?? []);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404 && !api.isOptional) return undefined;
    if (error.status !== 403 || !api.isOptional) throw error;
    err(`deployments of ${api.name} (${groupOf(api)}) are not shown: ${error.message}\n`);
    return [];
  }
}

function createTranslator(client: Pick<KubeClient, "request">, api: DeploymentApi) {
  const read = api.createReader({ client });
  return async (resource: unknown): Promise<FoundDeployment | undefined> => {
    const deployment = await read(resource);
    return deployment && { deployment, resource: resource as FoundDeployment["resource"] };
  };
}

/** Returns a function that reads a deployment again; `undefined` once it is deleted. */
export function createReader(client: Pick<KubeClient, "request">) {
  const translators = new Map(deploymentApis.map((api) => [api, createTranslator(client, api)]));
  return async ({ deployment }: FoundDeployment): Promise<FoundDeployment | undefined> => {
    const api = apiOf(deployment);
    const resource = await readOrNothing(client, resourcePath(api, deployment.key));
    return resource === undefined ? undefined : translators.get(api)?.(resource);
  };
}
