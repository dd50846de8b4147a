/** What an attacker with the login of the server, or with that of previews, could try, and the API server's answers. */
import type { ApiLogin, Answer, Asked } from "./api-login.ts";

export interface RightsPlace {
  /** A namespace with deployments. */
  readonly namespace: string;
  /** A namespace without deployments or objects of the server. */
  readonly elsewhere: string;
  /** Objects in `namespace`: a KluctlDeployment, a Secret, and a ConfigMap. */
  readonly deployment: string;
  readonly secret: string;
  readonly configMap: string;
  readonly results: string;
  /** The name of the release's roles and policies. */
  readonly clusterName: string;
}

export type Verdict = "yes" | "role" | "policy";
export type Attempts = (place: RightsPlace) => Readonly<Record<string, Asked>>;

/** Whether RBAC or an admission policy refused the request; anything else would have been carried out. */
export function verdictOf({ status, message }: Answer): Verdict {
  if (status === 401) throw new Error(`the API server does not know the login: ${message}`);
  if (status !== 403) return "yes";
  return message.includes("ValidatingAdmissionPolicy") ? "policy" : "role";
}

/** Makes all attempts concurrently. */
export async function tryAll(login: ApiLogin, attempts: Readonly<Record<string, Asked>>) {
  const tried = Object.entries(attempts).map(
    async ([what, asked]) => [what, verdictOf(await login.ask(asked))] as const,
  );
  return Object.fromEntries(await Promise.all(tried));
}

const core = "/api/v1";
const kluctl = "/apis/gitops.kluctl.io/v1beta1";
const rbac = "/apis/rbac.authorization.k8s.io/v1";
const admission = "/apis/admissionregistration.k8s.io/v1";
const leases = (namespace: string) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;

/**
 * Attempts are dry runs: rights and policies apply to them in the same way, and an attempt that is permitted has no
 * effect.
 */
const tried = "?dryRun=All";
const named = (name: string, more: object = {}) => ({ metadata: { name }, ...more });
const whoAmI = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };

function actAs(user: string, more: Readonly<Record<string, string>> = {}): Asked {
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  return { method: "POST", path, body: whoAmI, headers: { "impersonate-user": user, ...more } };
}

const pod = named("any", { spec: { containers: [{ name: "any", image: "any" }] } });
const toAdmin = {
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
  subjects: [{ kind: "User", apiGroup: "rbac.authorization.k8s.io", name: "anybody" }],
};

/** Attempts with the server's own token. */
export const serverAttempts: Attempts = ({ namespace, elsewhere, deployment, secret, results, clusterName }) => {
  const inside = `${core}/namespaces/${namespace}`;
  const outside = `${core}/namespaces/${elsewhere}`;
  const deployments = `${kluctl}/namespaces/${namespace}/kluctldeployments`;
  const change = (body: object): Asked => ({ method: "PATCH", path: `${deployments}/${deployment}${tried}`, body });
  const deployer = `system:serviceaccount:${namespace}:towline-deployer`;
  return {
    "write the status of a KluctlDeployment": {
      method: "PATCH",
      path: `${deployments}/${deployment}/status${tried}`,
      body: { status: { observedCommit: "any" } },
    },
    "remove a request from its annotations": change({
      metadata: { annotations: { "kluctl.io/request-deploy": null } },
    }),
    "record in its annotations what the project includes": change({
      metadata: {
        annotations: {
          "towline.dev/includes": "https://git.example.com/library",
          "towline.dev/included-commits": `https://git.example.com/library refs/heads/main ${"a".repeat(40)}`,
          "towline.dev/reads": "base",
          "towline.dev/served-url": "https://shop.example.com/",
        },
      },
    }),
    "add Towline's finalizer": change({ metadata: { finalizers: ["finalizers.gitops.kluctl.io"] } }),
    "change its spec": change({ spec: { target: "another" } }),
    "add a request to its annotations": change({ metadata: { annotations: { "kluctl.io/request-prune": "now" } } }),
    "remove another annotation": change({ metadata: { annotations: { "example.com/owner": null } } }),
    "change its labels": change({ metadata: { labels: { team: "another" } } }),
    "add another finalizer": change({ metadata: { finalizers: ["example.com/never"] } }),
    "create a KluctlDeployment": {
      method: "POST",
      path: `${deployments}${tried}`,
      body: {
        apiVersion: "gitops.kluctl.io/v1beta1",
        kind: "KluctlDeployment",
        ...named("any", { spec: { interval: "1h", source: { git: { url: "https://git.example.com/any.git" } } } }),
      },
    },
    "delete a KluctlDeployment": { method: "DELETE", path: `${deployments}/${deployment}${tried}` },
    "list the KluctlDeployments of another namespace": {
      method: "GET",
      path: `${kluctl}/namespaces/${elsewhere}/kluctldeployments`,
    },
    "hold a Lease of a deployment": {
      method: "POST",
      path: `${leases(namespace)}${tried}`,
      body: named("towline-any"),
    },
    "hold another Lease in that namespace": {
      method: "POST",
      path: `${leases(namespace)}${tried}`,
      body: named("any"),
    },
    "hold the Lease of a Kubernetes component": {
      method: "POST",
      path: `${leases("kube-system")}${tried}`,
      body: named("kube-scheduler"),
    },
    "store a result": {
      method: "POST",
      path: `${core}/namespaces/${results}/secrets${tried}`,
      body: named("any"),
    },
    "read a Secret in a deployment's namespace": { method: "GET", path: `${inside}/secrets/${secret}` },
    "list the Secrets in a deployment's namespace": { method: "GET", path: `${inside}/secrets` },
    "read a Secret in another namespace": { method: "GET", path: `${outside}/secrets/any` },
    "list all Secrets": { method: "GET", path: `${core}/secrets?limit=1` },
    "impersonate `towline-deployer`": actAs(deployer),
    "impersonate `towline-deployer` of another namespace": actAs(`system:serviceaccount:${elsewhere}:towline-deployer`),
    "impersonate another service account": actAs(`system:serviceaccount:${namespace}:default`),
    "impersonate a Kubernetes controller": actAs(
      "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
    ),
    "impersonate a user": actAs("admin"),
    "impersonate a member of a group": actAs(deployer, { "impersonate-group": "system:masters" }),
    "impersonate with another UID": actAs(deployer, { "impersonate-uid": "any" }),
    "impersonate with extra attributes": actAs(deployer, { "impersonate-extra-scopes": "any" }),
    "create a token of `towline-deployer`": {
      method: "POST",
      path: `${inside}/serviceaccounts/towline-deployer/token${tried}`,
      body: { spec: {} },
    },
    "create a ConfigMap": { method: "POST", path: `${inside}/configmaps${tried}`, body: named("any") },
    "create a Pod": { method: "POST", path: `${inside}/pods${tried}`, body: pod },
    "run a command in a Pod": { method: "POST", path: `${inside}/pods/any/exec?command=id` },
    "create a Namespace": { method: "POST", path: `${core}/namespaces${tried}`, body: named("any") },
    "delete a Namespace": { method: "DELETE", path: `${core}/namespaces/${elsewhere}${tried}` },
    "grant cluster-admin": {
      method: "POST",
      path: `${rbac}/clusterrolebindings${tried}`,
      body: named("any", toAdmin),
    },
    "change its own role": {
      method: "PATCH",
      path: `${rbac}/clusterroles/${clusterName}${tried}`,
      body: { rules: [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }] },
    },
    "remove the admission policy": {
      method: "DELETE",
      path: `${admission}/validatingadmissionpolicybindings/${clusterName}-deployments${tried}`,
    },
  };
};

/** Attempts with a token of the preview account, as dry runs or for real. */
export function previewAttempts(dryRun: boolean): Attempts {
  return ({ namespace, elsewhere, deployment, secret, configMap }) => {
    const query = dryRun ? tried : "";
    const inside = `${core}/namespaces/${namespace}`;
    return {
      "create a ConfigMap": { method: "POST", path: `${inside}/configmaps${query}`, body: named("never") },
      "change a ConfigMap": {
        method: "PATCH",
        path: `${inside}/configmaps/${configMap}${query}`,
        body: { data: { color: "never" } },
      },
      "delete a ConfigMap": { method: "DELETE", path: `${inside}/configmaps/${configMap}${query}` },
      "create a Namespace": { method: "POST", path: `${core}/namespaces${query}`, body: named("never-of-previews") },
      "read a Secret in a namespace that it compares": { method: "GET", path: `${inside}/secrets/${secret}` },
      "read a Secret in another namespace": { method: "GET", path: `${core}/namespaces/${elsewhere}/secrets/any` },
      "create a Pod": { method: "POST", path: `${inside}/pods${query}`, body: pod },
      "run a command in a Pod": { method: "POST", path: `${inside}/pods/any/exec?command=id` },
      "create a token of a service account": {
        method: "POST",
        path: `${inside}/serviceaccounts/default/token${query}`,
        body: { spec: {} },
      },
      "impersonate another service account": actAs(`system:serviceaccount:${namespace}:towline-deployer`),
      "change a KluctlDeployment": {
        method: "PATCH",
        path: `${kluctl}/namespaces/${namespace}/kluctldeployments/${deployment}${query}`,
        body: { spec: { target: "another" } },
      },
      "grant cluster-admin": {
        method: "POST",
        path: `${rbac}/clusterrolebindings${query}`,
        body: named("never-of-previews", toAdmin),
      },
      "remove the admission policy": {
        method: "DELETE",
        path: `${admission}/validatingadmissionpolicybindings/never${query}`,
      },
    };
  };
}
