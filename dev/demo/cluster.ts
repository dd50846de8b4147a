/** Creates the demo's resources in the cluster and watches their changes. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseAllDocuments } from "yaml";
import { ApiError } from "../../src/errors.ts";
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import { startWatch, type Watch } from "../../src/kube/watch.ts";
import { createLogger } from "../../src/log.ts";
import { installCustomResource } from "../custom-resource.ts";
import { packageRoot } from "../package-root.ts";

export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string; readonly generation?: number };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly data?: Readonly<Record<string, string>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

export interface KluctlDeployment extends KubernetesObject {
  readonly status?: {
    readonly observedCommit?: string;
    readonly observedGeneration?: number;
    readonly lastPrepareError?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message: string }[];
  };
}

/** Called with the previous and the current version of an object. */
export type Listener = (object: KubernetesObject, before: KubernetesObject | undefined, at: number) => void;

export interface DemoCluster {
  readonly client: KubeClient;
  /** The version that the watch reported last. */
  find(kind: string, namespace: string, name: string): KubernetesObject | undefined;
  onChange(listener: Listener): () => void;
  stop(): Promise<void>;
}

export const namespace = "shop";
/** The two targets of the shop. The deployments create their namespaces themselves. */
export const targets = ["staging", "prod"] as const;
export const namespaceOf = (target: (typeof targets)[number]): string => `shop-${target}`;
const examples = join(packageRoot, "examples/deployments");

/** Watches everything that the time lines need. */
export async function watchCluster(kubeconfig: string): Promise<DemoCluster> {
  const client = createKubeClient({ kubeconfig });
  const log = createLogger({ level: "silent", format: "json" });
  const objects = new Map<string, KubernetesObject>();
  const listeners = new Set<Listener>();
  const keyOf = (kind: string, where: string, name: string) => `${kind} ${where}/${name}`;

  function see(kind: string, raw: unknown): void {
    const object = { ...(raw as KubernetesObject), kind }; // lists omit the kind
    const key = keyOf(kind, object.metadata.namespace, object.metadata.name);
    const before = objects.get(key);
    objects.set(key, object);
    for (const listener of listeners) listener(object, before, Date.now());
  }

  const lists: [kind: string, path: string][] = [
    ["KluctlDeployment", `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`],
    ...targets.flatMap((target): [string, string][] => [
      ["Deployment", `/apis/apps/v1/namespaces/${namespaceOf(target)}/deployments`],
      ["ConfigMap", `/api/v1/namespaces/${namespaceOf(target)}/configmaps`],
    ]),
  ];
  const watches: Watch[] = lists.map(([kind, path]) =>
    startWatch({
      client,
      path,
      what: kind,
      log,
      onList: (all) => all.forEach((object) => see(kind, object)),
      onEvent: (type, object) => type !== "DELETED" && see(kind, object),
    }),
  );
  await Promise.all(watches.map(({ listed }) => listed));

  return {
    client,
    find: (kind, where, name) => objects.get(keyOf(kind, where, name)),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async stop() {
      await Promise.all(watches.map((watch) => watch.stop()));
      client.close();
    },
  };
}

const ownNamespaces = [namespace, ...targets.map(namespaceOf)];

/**
 * Creates the CRD and a namespace for the demo's own resources, in a cluster that has neither a controller nor a shop
 * yet. Returns the namespaces that exist because of the demo.
 */
export async function prepareCluster(kubeconfig: string): Promise<readonly string[]> {
  return withClient(kubeconfig, async (client) => {
    const rival = await findController(client);
    if (rival) throw new Error(`${rival} runs in this cluster: two controllers must not manage the same deployments.`);
    const { items } = await client.list("/api/v1/namespaces");
    const known = new Set((items as KubernetesObject[]).map(({ metadata }) => metadata.name));
    const taken = ownNamespaces.filter((name) => known.has(name));
    if (taken.length > 0)
      throw new Error(`The demo creates these namespaces, but they already exist: ${taken.join(", ")}.`);
    await installCustomResource(kubeconfig);
    const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
    await client.request({ method: "POST", path: "/api/v1/namespaces", body });
    return [...ownNamespaces, "kluctl-results"].filter((name) => !known.has(name));
  });
}

async function withClient<T>(kubeconfig: string, use: (client: KubeClient) => Promise<T>): Promise<T> {
  const client = createKubeClient({ kubeconfig });
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

async function findController(client: KubeClient): Promise<string | undefined> {
  const query = { labelSelector: "control-plane=kluctl-controller" };
  const { items } = await client.list("/apis/apps/v1/deployments", { query });
  const running = (items as KubernetesObject[]).find(({ spec }) => spec?.["replicas"] !== 0);
  return running && `${running.metadata.namespace}/${running.metadata.name}`;
}

/** Creates the deployments from the examples in the repository, with the URL of the demo's own repository. */
export async function createDeployments(client: KubeClient, repositoryUrl: string): Promise<void> {
  for (const target of targets) {
    const text = await readFile(join(examples, `${target}.yaml`), "utf8");
    const resources = parseAllDocuments(text).map((document) => document.toJS() as KubernetesObject & { spec: Spec });
    const resource = resources.find(({ kind }) => kind === "KluctlDeployment");
    if (!resource) throw new Error(`${target}.yaml contains no KluctlDeployment.`);
    resource.spec.source.git.url = repositoryUrl;
    // Validation runs once, right after the deploy, when pods cannot be ready yet: the time line waits for them itself.
    resource.spec.validate = false;
    resource.spec.delete = true;
    const path = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`;
    await client.request({ method: "POST", path, body: resource });
  }
}

/** Changes the repository of the deployments, and waits until the server has reconciled that. */
export async function moveDeployments(cluster: DemoCluster, repositoryUrl: string): Promise<void> {
  const list = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`;
  const generations = new Map<string, number>();
  for (const target of targets) {
    const body = { spec: { source: { git: { url: repositoryUrl } } } };
    const request = { method: "PATCH", path: `${list}/${target}`, body } as const;
    const { metadata } = (await cluster.client.request(request)) as KubernetesObject;
    generations.set(target, metadata.generation ?? 0);
  }
  const deadline = Date.now() + 60_000;
  const isReconciled = (target: (typeof targets)[number]) => {
    const object = cluster.find("KluctlDeployment", namespace, target) as KluctlDeployment | undefined;
    const { observedGeneration = 0, observedCommit = "" } = object?.status ?? {};
    const state = readiness(object, observedCommit);
    if (state instanceof Error) throw state;
    return observedGeneration >= (generations.get(target) ?? 0) && state === "ready";
  };
  while (!targets.every(isReconciled)) {
    if (Date.now() > deadline) throw new Error("The deployments were not reconciled from Gitea within 60 s.");
    await delay(50);
  }
}

interface Spec {
  readonly source: { readonly git: { url: string } };
  validate: boolean;
  delete: boolean;
}

/** To be called while the server still runs, because it deletes what it deployed. */
export async function deleteDeployments(client: KubeClient): Promise<void> {
  const list = `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`;
  for (const target of targets) await client.request({ method: "DELETE", path: `${list}/${target}` }).catch(ignoreGone);
  const deadline = Date.now() + 60_000;
  while ((await client.list(list)).items.length > 0) {
    if (Date.now() > deadline)
      throw new Error(`The KluctlDeployments of namespace ${namespace} were not deleted within 60 s.`);
    await delay(200);
  }
}

export async function deleteNamespaces(kubeconfig: string, names: readonly string[]): Promise<void> {
  await withClient(kubeconfig, async (client) => {
    for (const name of names) {
      await client.request({ method: "DELETE", path: `/api/v1/namespaces/${name}` }).catch(ignoreGone);
    }
  });
}

function ignoreGone(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 404)) throw error;
}

/** `ready` at this commit, or the error. */
export function readiness(object: KubernetesObject | undefined, commit: string): "ready" | "waiting" | Error {
  const { status } = (object ?? {}) as Partial<KluctlDeployment>;
  if (status?.observedCommit !== commit) return "waiting";
  const working = status.conditions?.some(({ type }) => type === "Reconciling");
  const ready = status.conditions?.find(({ type }) => type === "Ready");
  if (working || ready === undefined || ready.status === "Unknown") return "waiting";
  return ready.status === "True" ? "ready" : new Error(status.lastPrepareError || ready.message);
}
