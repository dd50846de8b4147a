/** Reads and deletes objects in a target cluster with the deployment's identity, without waiting until they are gone. */
import { resolveAllowed, systemLookup, toNodeLookup } from "../kit/address.ts";
import { createLimit } from "../kit/limit.ts";
import type { JsonObject } from "../kit/json.ts";
import { ApiError, isDenied } from "../errors.ts";
import type { Doomed, Identity, ObjectQuery, QueriedObjects, ResultError } from "../model.ts";
import type { Objects } from "../ports.ts";
import { createKubeClient, type KubeClient } from "./client.ts";
import { rootOf } from "./kind.ts";
import { readOrNothing } from "./read-or-nothing.ts";

export interface ObjectsDeps {
  /** Returns the text of the kubeconfig that kluctl gets for the server's own cluster. */
  readonly kubeconfigFor: (impersonate?: string) => string | Promise<string>;
}

/** Ten times the largest object that Kubernetes accepts. The cluster may be under anybody's control. */
const mostAnswerMiB = 16;
/** More than a person would wait for; reading them again and again would load the API server. */
const mostListed = 500;
/** Characters of all objects that are read together. They are kept in memory at the same time, and users choose them. */
const mostTogether = 16 * 1024 * 1024;
const tooLarge = { problem: "the objects are too large together; name fewer", isPermanent: true };
/** As many parallel requests as kluctl makes. */
const atOnce = 8;

interface ResourceList {
  readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
}

interface ObjectList {
  readonly metadata?: { readonly continue?: string };
  readonly items?: readonly JsonObject[];
}

type Deletion = Doomed & { readonly path: string };

export function createObjects({ kubeconfigFor }: ObjectsDeps): Objects {
  async function clientFor({ cluster, impersonate }: Partial<Identity>): Promise<KubeClient> {
    return createKubeClient({
      text: cluster?.kubeconfig ?? (await kubeconfigFor(impersonate)),
      mostAnswerMiB,
      ...(cluster && { lookup: toNodeLookup((host) => resolveAllowed(host, systemLookup)) }),
    });
  }

  return {
    async read(queries, run, signal) {
      const client = await clientFor(run);
      try {
        const lists = new Map<string, Promise<ResourceList>>();
        const resourcesOf = (apiVersion: string): Promise<ResourceList> => {
          const known = lists.get(apiVersion) ?? readResources(client, apiVersion, signal);
          lists.set(apiVersion, known);
          return known;
        };
        const limit = createLimit(atOnce);
        let length = 0;
        const readWithin = async (query: ObjectQuery): Promise<QueriedObjects> => {
          if (length > mostTogether) return tooLarge;
          const found = await readOne(client, query, resourcesOf, signal);
          length += JSON.stringify(found).length;
          return length > mostTogether ? tooLarge : found;
        };
        const reads = queries.map((query) => limit.run(() => readWithin(query), { signal }));
        return await Promise.all(reads);
      } finally {
        client.close();
      }
    },
    async delete(doomed, run, { dryRun }, signal) {
      const client = await clientFor(run);
      try {
        const errors: ResultError[] = [];
        const deletions = await findPaths(client, doomed, errors, signal);
        const isNamespace = ({ apiVersion, kind }: Doomed) => apiVersion === "v1" && kind === "Namespace";
        const namespaces = deletions.filter(isNamespace);
        // A namespace takes its objects with it.
        const going = new Set(namespaces.map(({ name }) => name));
        const others = deletions.filter((one) => !isNamespace(one) && !going.has(one.namespace ?? ""));
        for (const group of [namespaces, others]) {
          const left = group.values();
          const work = async () => {
            for (const one of left) await deleteOne(client, one, dryRun, errors, signal);
          };
          await Promise.all(Array.from({ length: atOnce }, work));
        }
        return errors;
      } finally {
        client.close();
      }
    },
  };
}

async function readResources(client: KubeClient, apiVersion: string, signal: AbortSignal): Promise<ResourceList> {
  return (await client.request({ method: "GET", path: rootOf(apiVersion), signal })) as ResourceList;
}

function findResource(list: ResourceList, kind: string) {
  return list.resources?.find((one) => one.kind === kind && !one.name.includes("/"));
}

async function readOne(
  client: KubeClient,
  { apiVersion, kind, namespace, name, label }: ObjectQuery,
  resourcesOf: (apiVersion: string) => Promise<ResourceList>,
  signal: AbortSignal,
): Promise<QueriedObjects> {
  const unserved = { problem: `the API server does not serve ${kind} of ${apiVersion}`, isPermanent: false };
  try {
    const resource = findResource(await resourcesOf(apiVersion), kind);
    if (resource === undefined) return unserved;
    const scope = resource.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
    const collection = `${rootOf(apiVersion)}${scope}/${resource.name}`;
    if (name !== undefined) {
      const object = await readOrNothing(client, `${collection}/${encodeURIComponent(name)}`, signal);
      return { objects: object === undefined ? [] : [object as JsonObject] };
    }
    const query = { labelSelector: label, limit: mostListed };
    const list = (await client.request({ method: "GET", path: collection, query, signal })) as ObjectList;
    if (list.metadata?.continue)
      return { problem: `there are more than ${mostListed} objects of kind ${kind}`, isPermanent: true };
    // The items of a list have neither field.
    return { objects: (list.items ?? []).map((item) => ({ ...item, apiVersion, kind })) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) return unserved;
    return { problem: error.message, isPermanent: isDenied(error) };
  }
}

async function findPaths(
  client: KubeClient,
  doomed: readonly Doomed[],
  errors: ResultError[],
  signal: AbortSignal,
): Promise<Deletion[]> {
  const found: Deletion[] = [];
  for (const [apiVersion, group] of Map.groupBy(doomed, (one) => one.apiVersion)) {
    let list: ResourceList;
    try {
      list = await readResources(client, apiVersion, signal);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A kind whose definition was removed has no objects left.
      if (error.status !== 404) errors.push(...group.map(({ ref }) => ({ ref, message: error.message })));
      continue;
    }
    for (const one of group) {
      const resource = findResource(list, one.kind);
      if (resource === undefined) {
        errors.push({ ref: one.ref, message: `the API server does not serve ${one.kind} of ${apiVersion}` });
        continue;
      }
      const scope = resource.namespaced ? `/namespaces/${encodeURIComponent(one.namespace ?? "default")}` : "";
      found.push({ ...one, path: `${rootOf(apiVersion)}${scope}/${resource.name}/${encodeURIComponent(one.name)}` });
    }
  }
  return found;
}

async function deleteOne(
  client: KubeClient,
  { ref, path, uid }: Deletion,
  dryRun: boolean,
  errors: ResultError[],
  signal: AbortSignal,
): Promise<void> {
  const options = {
    apiVersion: "v1",
    kind: "DeleteOptions",
    propagationPolicy: "Background",
    // Delete exactly this object, not one that was recreated under its name.
    preconditions: { uid },
    ...(dryRun && { dryRun: ["All"] }),
  };
  try {
    signal.throwIfAborted();
    await client.request({ method: "DELETE", path, body: options, signal });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 404) errors.push({ ref, message: error.message });
  }
}
