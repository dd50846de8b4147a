import {
  ApiException,
  type KubernetesObject,
  KubeConfig,
  KubernetesObjectApi,
  CoreV1Api,
} from "@kubernetes/client-node";
import { expect, onTestFinished } from "vitest";

export interface TestCluster {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly config: KubeConfig;
  readonly namespace: string;
  readonly core: CoreV1Api;
  readonly objects: KubernetesObjectApi;
  /** Creates an object in the test's namespace. */
  create<T extends KubernetesObject>(object: T): Promise<T>;
  find<T extends KubernetesObject>(apiVersion: string, kind: string, name: string): Promise<T | undefined>;
  /** A KluctlDeployment of the test's namespace, and what becomes of it. */
  deployment(name: string): TestDeployment;
}

export interface TestDeployment {
  readonly key: string;
  create(spec: object, annotations?: Record<string, string>): Promise<void>;
  get(): Promise<TestResource | undefined>;
  /** Waits until the condition is `True`; on failure says what the resource looked like. */
  reaches(condition: string, withinMs?: number): Promise<TestResource>;
}

export interface TestResource extends KubernetesObject {
  spec: Record<string, unknown>;
  status?: { conditions?: { type: string; status: string; reason?: string; message?: string }[] } & Record<
    string,
    unknown
  >;
}

const apiVersion = "gitops.kluctl.io/v1beta1";

/** Namespaces are deleted without waiting for it: what is in them concerns no other test. */
export async function useNamespace(kubeconfig: string, namespace: string): Promise<TestCluster> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const core = config.makeApiClient(CoreV1Api);
  const objects = KubernetesObjectApi.makeApiClient(config);
  await core.createNamespace({ body: { metadata: { name: namespace } } });
  onTestFinished(async () => {
    await core.deleteNamespace({ name: namespace, gracePeriodSeconds: 0 });
  });

  const find = async <T extends KubernetesObject>(version: string, kind: string, name: string) => {
    try {
      return (await objects.read({ apiVersion: version, kind, metadata: { name, namespace } })) as T;
    } catch (error) {
      if (error instanceof ApiException && error.code === 404) return undefined;
      throw error;
    }
  };
  const create = <T extends KubernetesObject>(object: T) =>
    objects.create({ ...object, metadata: { namespace, ...object.metadata } }) as Promise<T>;

  return {
    kubeconfig,
    config,
    namespace,
    core,
    objects,
    create,
    find,
    deployment(name) {
      const get = () => find<TestResource>(apiVersion, "KluctlDeployment", name);
      return {
        key: `${namespace}/${name}`,
        get,
        async create(spec, annotations = {}) {
          const metadata = { name, namespace, annotations };
          await create({ apiVersion, kind: "KluctlDeployment", metadata, spec } as KubernetesObject);
        },
        async reaches(condition, withinMs = 60_000) {
          let resource: TestResource | undefined;
          const isTrue = async () => {
            resource = await get();
            return (
              resource?.status?.conditions?.some((one) => one.type === condition && one.status === "True") ?? false
            );
          };
          await expect
            .poll(isTrue, { timeout: withinMs, interval: 100 })
            .toBe(true)
            .catch((cause: unknown) => {
              const seen = JSON.stringify(resource?.status ?? "no status", undefined, 2);
              throw new Error(`${namespace}/${name} did not reach ${condition} in ${withinMs} ms: ${seen}`, { cause });
            });
          return resource as TestResource;
        },
      };
    },
  };
}
