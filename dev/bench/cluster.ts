/** The cluster of the measurements: creates resources, and watches them to time their changes. */
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import { startWatch } from "../../src/kube/watch.ts";
import { createLogger } from "../../src/log.ts";
import { previewAccount, previewAccountObjects } from "../parts/preview-account.ts";

export type WatchedKind = "ConfigMap" | "KluctlDeployment" | "Kustomization";

export interface Cluster {
  readonly kubeconfig: string;
  readonly client: KubeClient;
  createNamespace(name: string): Promise<void>;
  /** Creates the service account that previews run as. */
  createPreviewAccount(namespace: string): Promise<void>;
  /** Creates the same account with only the rights that comparing the project needs. */
  createComparingAccount(namespace: string): Promise<void>;
  createDeployment(namespace: string, name: string, spec: object): Promise<void>;
  /** Writes a status like a server does. */
  setStatus(namespace: string, name: string, status: object): Promise<void>;
  /** Mirrors the objects of the namespace through a watch of its own. */
  watch(kind: WatchedKind, namespace: string): Promise<Seen>;
  close(): void;
}

export interface Seen {
  /** Resolves with the time (see clock.ts) at which the condition became true of the objects, by name. */
  until(
    what: string,
    is: (objects: ReadonlyMap<string, KubernetesObject>) => boolean,
    withinMs?: number,
  ): Promise<number>;
  stop(): Promise<void>;
}

export interface KubernetesObject {
  readonly metadata: { readonly name: string; readonly generation?: number };
  readonly data?: Readonly<Record<string, string>>;
  readonly status?: {
    readonly observedCommit?: string;
    /** Of a Kustomization. */
    readonly lastAppliedRevision?: string;
    readonly lastPrepareError?: string;
    readonly lastDriftDetectionResultMessage?: string;
    readonly lastDriftDetectionResult?: { readonly id: string; readonly objects?: readonly unknown[] };
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message: string }[];
  };
}

const deployments = "/apis/gitops.kluctl.io/v1beta1/namespaces";
const pathOf = {
  ConfigMap: (namespace: string) => `/api/v1/namespaces/${namespace}/configmaps`,
  KluctlDeployment: (namespace: string) => `${deployments}/${namespace}/kluctldeployments`,
  Kustomization: (namespace: string) => `/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/${namespace}/kustomizations`,
};

export function openCluster(kubeconfig: string, now: () => number): Cluster {
  const client = createKubeClient({ kubeconfig });
  const log = createLogger({ level: "silent", format: "json" });
  return {
    kubeconfig,
    client,
    close: () => client.close(),
    async createNamespace(name) {
      const body = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
      await client.request({ method: "POST", path: "/api/v1/namespaces", body });
    },
    async createPreviewAccount(namespace) {
      for (const { path, body } of previewAccountObjects(namespace)) {
        await client.request({ method: "POST", path, body });
      }
    },
    async createComparingAccount(namespace) {
      const name = previewAccount;
      const rbac = "/apis/rbac.authorization.k8s.io/v1";
      const rules = [{ apiGroups: [""], resources: ["configmaps", "serviceaccounts", "services"], verbs: ["*"] }];
      const seen = [{ apiGroups: [""], resources: ["namespaces"], verbs: ["get", "list"] }];
      const subjects = [{ kind: "ServiceAccount", name, namespace }];
      const metadata = { name: `${namespace}-${name}` };
      const roleRef = (kind: string) => ({ apiGroup: "rbac.authorization.k8s.io", kind, ...metadata });
      const post = (path: string, body: object) => client.request({ method: "POST", path, body });
      await post(`/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
      await post(`${rbac}/namespaces/${namespace}/roles`, { metadata, rules });
      await post(`${rbac}/namespaces/${namespace}/rolebindings`, { metadata, roleRef: roleRef("Role"), subjects });
      await post(`${rbac}/clusterroles`, { metadata, rules: seen });
      await post(`${rbac}/clusterrolebindings`, { metadata, roleRef: roleRef("ClusterRole"), subjects });
    },
    async createDeployment(namespace, name, spec) {
      const body = {
        apiVersion: "gitops.kluctl.io/v1beta1",
        kind: "KluctlDeployment",
        metadata: { name, namespace },
        spec,
      };
      await client.request({ method: "POST", path: pathOf.KluctlDeployment(namespace), body });
    },
    async setStatus(namespace, name, status) {
      const path = `${pathOf.KluctlDeployment(namespace)}/${name}/status`;
      await client.request({ method: "PATCH", path, body: { status } });
    },
    async watch(kind, namespace) {
      const objects = new Map<string, KubernetesObject>();
      const listeners = new Set<() => void>();
      const see = (object: unknown) => {
        const one = object as KubernetesObject;
        objects.set(one.metadata.name, one);
        for (const listener of listeners) listener();
      };
      const watch = startWatch({
        client,
        path: pathOf[kind](namespace),
        what: kind,
        log,
        onList: (all) => all.forEach(see),
        onEvent: (_type, object) => see(object), // no object is deleted here
      });
      await watch.listed;
      return {
        until(what, is, withinMs = 60_000) {
          return new Promise((resolve, reject) => {
            const end = () => {
              clearTimeout(late);
              listeners.delete(look);
            };
            const look = () => {
              if (!is(objects)) return;
              end();
              resolve(now());
            };
            const late = setTimeout(() => {
              end();
              reject(new Error(`${namespace} did not reach "${what}" in ${withinMs / 1_000} s.${troubles(objects)}`));
            }, withinMs);
            listeners.add(look);
            look();
          });
        },
        stop: () => watch.stop(),
      };
    },
  };
}

/** True if the deployment is ready at this commit and no reconciliation is in progress. */
export function isReady(object: KubernetesObject | undefined, commit: string): boolean {
  const { observedCommit, conditions = [] } = object?.status ?? {};
  const is = (type: string) => conditions.some((one) => one.type === type && one.status === "True");
  return observedCommit === commit && is("Ready") && !is("Reconciling");
}

/** The first few messages that do not report success, to explain a timeout. */
function troubles(objects: ReadonlyMap<string, KubernetesObject>): string {
  const said = [...objects.values()].flatMap(({ metadata, status }) => {
    const bad = status?.conditions?.find(({ type, status: is }) => type === "Ready" && is !== "True");
    return bad ? [`${metadata.name}: ${status?.lastPrepareError || bad.message}`] : [];
  });
  return said.length === 0 ? "" : ` ${said.slice(0, 3).join("; ")}`;
}
