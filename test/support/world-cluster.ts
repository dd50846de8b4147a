import {
  ApiException,
  type CoreV1Event,
  type KubernetesObject,
  KubeConfig,
  KubernetesObjectApi,
  CoreV1Api,
  PatchStrategy,
  type V1ConfigMap,
} from "@kubernetes/client-node";
import { expect, inject, onTestFinished } from "vitest";
import { patience } from "./patience.ts";

export interface TestCluster {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly config: KubeConfig;
  readonly namespace: string;
  readonly core: CoreV1Api;
  readonly objects: KubernetesObjectApi;
  /** Creates an object in the test's namespace. */
  create<T extends KubernetesObject>(object: T): Promise<T>;
  /** Sends a JSON merge patch with the field manager of a command-line user, whose changes kluctl overwrites. */
  patch(object: KubernetesObject): Promise<void>;
  delete(object: KubernetesObject): Promise<void>;
  find<T extends KubernetesObject>(apiVersion: string, kind: string, name: string): Promise<T | undefined>;
  /** Data of a ConfigMap in the test's namespace, if it exists. */
  data(configMap: string): Promise<Record<string, string> | undefined>;
  /** A KluctlDeployment in the test's namespace, whose progress the test follows. */
  deployment(name: string): TestDeployment;
}

export interface TestDeployment {
  readonly key: string;
  create(spec: object, annotations?: Record<string, string>): Promise<void>;
  get(): Promise<TestResource | undefined>;
  /** Sends a JSON merge patch. */
  patch(change: { spec?: object; metadata?: object }): Promise<void>;
  delete(): Promise<void>;
  /** Waits until the condition is `True`; on failure reports the resource. */
  reaches(condition: string, withinMs?: number): Promise<TestResource>;
  /** Waits until `is` returns true for the resource. */
  until(what: string, is: (resource: TestResource) => boolean, withinMs?: number): Promise<TestResource>;
  /** Waits until its spec, and the commit if one is given, has been reconciled, successfully or not. */
  settles(commit?: string): Promise<TestResource>;
  events(): Promise<CoreV1Event[]>;
}

export interface TestResource extends KubernetesObject {
  spec: Record<string, unknown>;
  status?: { conditions?: { type: string; status: string; reason?: string; message?: string }[] } & Record<
    string,
    unknown
  >;
}

export function conditionOf(resource: TestResource | undefined, type: string) {
  return resource?.status?.conditions?.find((condition) => condition.type === type);
}

/** The `Ready` condition. */
export function readyOf(resource: TestResource) {
  const { status, reason, message } = conditionOf(resource, "Ready") ?? {};
  return { status, reason, message };
}

/** Id of `lastDeployResult` or of another last result. */
export function idOf({ status }: TestResource, result: string): string | undefined {
  return (status?.[result] as { id: string } | undefined)?.id;
}

/** True if no reconciliation is in progress and the last one observed the current spec. */
function isSettled(resource: TestResource): boolean {
  const { status, metadata } = resource;
  const seen = status?.["observedGeneration"] === metadata?.generation;
  return seen && conditionOf(resource, "Ready") !== undefined && conditionOf(resource, "Reconciling") === undefined;
}

const apiVersion = "gitops.kluctl.io/v1beta1";

/**
 * Reuses connections: client-node opens a new one for each request, which is most of the cost of the small requests that
 * tests send constantly.
 */
function keepConnections(config: KubeConfig): void {
  const internals = config as unknown as { createDispatcher(...args: unknown[]): unknown };
  const create = internals.createDispatcher.bind(config);
  let kept: unknown;
  internals.createDispatcher = (...args) => (kept ??= create(...args));
}

/**
 * A namespace of this test. It is kept in a control plane that ends with the run: deleting a namespace costs a fifth of
 * a second, and one that cannot be deleted, because the server that would remove the finalizers of its
 * KluctlDeployments has exited, costs a hundredth of a core for the rest of the run. In any other control plane it is
 * deleted, without waiting for the end of the deletion.
 */
export async function useNamespace(
  kubeconfig: string,
  namespace: string,
  ends = inject("worldEnds"),
): Promise<TestCluster> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  keepConnections(config);
  const core = config.makeApiClient(CoreV1Api);
  const objects = KubernetesObjectApi.makeApiClient(config);
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  onTestFinished(async () => {
    if (ends) return;
    await core.deleteNamespace({ name: namespace, gracePeriodSeconds: 0 }).catch((error: unknown) => {
      if (!(error instanceof ApiException && error.code === 404)) throw error; // deleted by the test
    });
    const { items } = await objects.list(apiVersion, "KluctlDeployment", namespace);
    for (const { metadata } of items) {
      const free = { name: metadata?.name ?? "", namespace, finalizers: null as never };
      const self = { apiVersion, kind: "KluctlDeployment", metadata: free };
      await objects.patch(self, undefined, undefined, undefined, undefined, PatchStrategy.MergePatch);
    }
  });

  const ours = <T extends KubernetesObject>(object: T) => ({
    ...object,
    metadata: { namespace, ...object.metadata },
  });
  const find = async <T extends KubernetesObject>(version: string, kind: string, name: string) => {
    try {
      return (await objects.read({ apiVersion: version, kind, metadata: { name, namespace } })) as T;
    } catch (error) {
      if (error instanceof ApiException && error.code === 404) return undefined;
      throw error;
    }
  };
  const create = <T extends KubernetesObject>(object: T) => objects.create(ours(object)) as Promise<T>;

  const patch = async (object: KubernetesObject) => {
    await objects.patch(ours(object), undefined, undefined, "kubectl-edit", undefined, PatchStrategy.MergePatch);
  };
  const remove = async (object: KubernetesObject) => {
    await objects.delete(ours(object));
  };

  return {
    kubeconfig,
    config,
    namespace,
    core,
    objects,
    create,
    patch,
    delete: remove,
    find,
    data: async (name) => (await find<KubernetesObject & V1ConfigMap>("v1", "ConfigMap", name))?.data,
    deployment(name) {
      const get = () => find<TestResource>(apiVersion, "KluctlDeployment", name);
      const self = { apiVersion, kind: "KluctlDeployment", metadata: { name, namespace } };
      const until: TestDeployment["until"] = async (what, is, withinMs = patience.timeout) => {
        let resource: TestResource | undefined;
        const isSo = async () => {
          resource = await get();
          return resource !== undefined && is(resource);
        };
        await expect
          .poll(isSo, { ...patience, timeout: withinMs })
          .toBe(true)
          .catch((cause: unknown) => {
            const seen = JSON.stringify(resource?.status ?? "no status", undefined, 2);
            throw new Error(`${namespace}/${name} did not reach ${what} in ${withinMs} ms: ${seen}`, { cause });
          });
        return resource as TestResource;
      };
      return {
        key: `${namespace}/${name}`,
        get,
        async create(spec, annotations = {}) {
          await create({ ...self, metadata: { name, namespace, annotations }, spec } as KubernetesObject);
        },
        patch: ({ metadata, ...change }) => patch({ ...self, ...change, metadata: { ...self.metadata, ...metadata } }),
        delete: () => remove(self),
        until,
        reaches: (type, withinMs) =>
          until(type, (resource) => conditionOf(resource, type)?.status === "True", withinMs),
        settles: (commit) =>
          until(
            "its end",
            (resource) =>
              isSettled(resource) && (commit === undefined || resource.status?.["observedCommit"] === commit),
          ),
        async events() {
          const { items } = await core.listNamespacedEvent({ namespace, fieldSelector: `involvedObject.name=${name}` });
          return items.filter(({ involvedObject }) => involvedObject.kind === self.kind);
        },
      };
    },
  };
}
