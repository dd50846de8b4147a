/** The service account of isolated previews where rights do not matter. The server's proxy limits them to dry runs. */

export const previewAccount = "towline-preview";

/** The objects of the account in a namespace, with the path at which each is created. */
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
