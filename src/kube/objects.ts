/** Deletes objects in a target cluster with the deployment's identity, without waiting until they are gone. */
import { resolveAllowed, systemLookup, toNodeLookup } from "../kit/address.ts";
import { ApiError } from "../errors.ts";
import type { Doomed, ResultError } from "../model.ts";
import type { Objects } from "../ports.ts";
import { createKubeClient, type KubeClient } from "./client.ts";

export interface ObjectsDeps {
  /** Returns the text of the kubeconfig that kluctl gets for the server's own cluster. */
  readonly kubeconfigFor: (impersonate?: string) => string | Promise<string>;
}

/** Ten times the largest object that Kubernetes accepts. The cluster may be under anybody's control. */
const mostAnswerMiB = 16;
/** As many parallel deletions as kluctl does. */
const atOnce = 8;

interface ResourceList {
  readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
}

type Deletion = Doomed & { readonly path: string };

export function createObjects({ kubeconfigFor }: ObjectsDeps): Objects {
  return {
    async delete(doomed, run, { dryRun }, signal) {
      const client = createKubeClient({
        text: run.cluster?.kubeconfig ?? (await kubeconfigFor(run.impersonate)),
        mostAnswerMiB,
        ...(run.cluster && { lookup: toNodeLookup((host) => resolveAllowed(host, systemLookup)) }),
      });
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

async function findPaths(
  client: KubeClient,
  doomed: readonly Doomed[],
  errors: ResultError[],
  signal: AbortSignal,
): Promise<Deletion[]> {
  const found: Deletion[] = [];
  for (const [apiVersion, group] of Map.groupBy(doomed, (one) => one.apiVersion)) {
    const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    let list: ResourceList;
    try {
      list = (await client.request({ method: "GET", path: root, signal })) as ResourceList;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A kind whose definition was removed has no objects left.
      if (error.status !== 404) errors.push(...group.map(({ ref }) => ({ ref, message: error.message })));
      continue;
    }
    for (const one of group) {
      const resource = list.resources?.find(({ kind, name }) => kind === one.kind && !name.includes("/"));
      if (resource === undefined) {
        errors.push({ ref: one.ref, message: `the API server does not serve ${one.kind} of ${apiVersion}` });
        continue;
      }
      const scope = resource.namespaced ? `/namespaces/${encodeURIComponent(one.namespace ?? "default")}` : "";
      found.push({ ...one, path: `${root}${scope}/${resource.name}/${encodeURIComponent(one.name)}` });
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
