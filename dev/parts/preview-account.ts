/** What confined previews ask the API server as, where nobody counts rights. The server's proxy keeps them to dry runs. */

export const previewAccount = "towline-preview";

/** The account of a namespace, by the path at which each object is created. */
export function previewAccountObjects(namespace: string): readonly { readonly path: string; readonly body: object }[] {
  const group = "rbac.authorization.k8s.io";
  const account = { kind: "ServiceAccount", name: previewAccount, namespace };
  return [
    {
      path: `/api/v1/namespaces/${namespace}/serviceaccounts`,
      body: { apiVersion: "v1", kind: account.kind, metadata: { name: previewAccount, namespace } },
    },
    {
      path: `/apis/${group}/v1/clusterrolebindings`,
      body: {
        apiVersion: `${group}/v1`,
        kind: "ClusterRoleBinding",
        metadata: { name: `${namespace}-${previewAccount}` },
        roleRef: { apiGroup: group, kind: "ClusterRole", name: "cluster-admin" },
        subjects: [account],
      },
    },
  ];
}
