/** Creates service accounts with few rights. */
import { AuthorizationV1Api, type V1ResourceAttributes } from "@kubernetes/client-node";
import { expect, onTestFinished } from "vitest";
import { patience } from "./patience.ts";
import type { TestCluster } from "./world-cluster.ts";

/**
 * A service account with all rights on its namespace's ConfigMaps, and otherwise only
 * rights to get and list: kluctl lists namespaces on every deploy, and ConfigMaps of all namespaces to find orphaned objects.
 */
export async function createAccount(
  cluster: TestCluster,
  name: string,
  sees = ["namespaces", "configmaps"],
): Promise<void> {
  const { namespace } = cluster;
  const rbac = "rbac.authorization.k8s.io";
  const metadata = { name };
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  const rules = [{ apiGroups: [""], resources: ["configmaps"], verbs: ["*"] }];
  const roleRef = { apiGroup: rbac, kind: "Role", name };
  await cluster.create({ apiVersion: `${rbac}/v1`, kind: "Role", metadata, rules } as object);
  await cluster.create({ apiVersion: `${rbac}/v1`, kind: "RoleBinding", metadata, roleRef, subjects } as object);

  const everywhere = { apiVersion: `${rbac}/v1`, metadata: { name: `${namespace}-${name}` } };
  const role = {
    ...everywhere,
    kind: "ClusterRole",
    rules: [{ apiGroups: [""], resources: sees, verbs: ["get", "list"] }],
  };
  const binding = {
    ...everywhere,
    kind: "ClusterRoleBinding",
    roleRef: { apiGroup: rbac, kind: role.kind, ...role.metadata },
    subjects,
  };
  for (const object of [role, binding]) {
    await cluster.objects.create(object);
    onTestFinished(async () => void (await cluster.objects.delete(object)));
  }
  await whenMay(cluster, name, [
    { namespace, verb: "create", resource: "configmaps" },
    ...sees.map((resource) => ({ verb: "list", resource })),
  ]);
}

/** Waits until the account has the right: the API server applies new roles and bindings with a delay. */
export async function whenMay(
  { config, namespace }: TestCluster,
  name: string,
  all: readonly V1ResourceAttributes[],
): Promise<void> {
  const reviews = config.makeApiClient(AuthorizationV1Api);
  const user = `system:serviceaccount:${namespace}:${name}`;
  for (const resourceAttributes of all) {
    const review = async () => reviews.createSubjectAccessReview({ body: { spec: { user, resourceAttributes } } });
    await expect.poll(async () => (await review()).status?.allowed, patience).toBe(true);
  }
}
