/** Checks every permission that the server needs, verb by verb. */
import { ApiError } from "../errors.ts";
import type { AccessReview, DoctorCluster } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

export interface PermissionsInput {
  /** Empty: all. */
  readonly namespaces: readonly string[];
  readonly resultsNamespace: string;
  /** Namespace of the leader election Lease; absent if leader election is off. */
  readonly leader: string | undefined;
  /** Namespace of the keys for source overrides of `kluctl gitops`; absent if disabled. */
  readonly overrides: string | undefined;
  /** The records of notifications: their namespace and names. */
  readonly notifications?: { readonly namespace: string; readonly names: readonly string[] } | undefined;
  /** Whether the cluster has the legacy API, `flux.kluctl.io`. */
  readonly legacy: boolean;
  /** Whether the server makes Flux fetch. */
  readonly triggersFlux?: boolean | undefined;
  /** Whether the server reports what Flux applies. */
  readonly reportsFlux?: boolean | undefined;
  /** Whether what Flux applies is previewed. */
  readonly previewsFlux?: boolean | undefined;
  /** Whether the server reads the Secrets of deployments with its own account. */
  readonly readsSecrets: boolean;
  /** Whether some deployments decrypt files. */
  readonly decrypts: boolean;
  /** Service accounts that deployments use. */
  readonly accounts: readonly { readonly namespace: string; readonly name: string }[];
  /** Service accounts of confined previews, for which the server creates tokens. */
  readonly previewAccounts: readonly { readonly namespace: string; readonly name: string }[];
  /** Whether some deployments use the server's own permissions. */
  readonly asServer: boolean;
  /** Groups of page operators, named as in the cluster, which the server impersonates for their requests. */
  readonly operatorGroups: readonly string[];
  /** Whether the page checks by access reviews what logged-in users may see. */
  readonly asksWhatPeopleSee: boolean;
}

/** A permission that the server's own account needs. */
export interface Need {
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** Name of the single object needed; ignored for `create`, which cannot be restricted by name. */
  readonly name?: string;
  readonly verbs: readonly string[];
  /** What does not work without the permission. */
  readonly without: string;
  /** If set, a missing permission is only a warning. */
  readonly optional?: boolean;
}

/** In every namespace with deployments. */
const perNamespace: readonly Need[] = [
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    verbs: ["get", "list", "watch"],
    without: "deployments cannot be found",
  },
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    verbs: ["patch"],
    without: "requests cannot be accepted and finalizers cannot be set",
  },
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    subresource: "status",
    verbs: ["patch"],
    without: "status cannot be written",
  },
  {
    group: "coordination.k8s.io",
    resource: "leases",
    verbs: ["get", "create", "update"],
    without: "nothing is deployed, because each reconciliation needs a Lease",
  },
  { group: "", resource: "events", verbs: ["create", "patch"], without: "no Events are written" },
];

const forSecrets: Need = {
  group: "",
  resource: "secrets",
  verbs: ["get"],
  without: "credentials and keys of deployments cannot be read",
};

const withoutRole = "the AWS role of a service account is not used to decrypt";
const forDecryption: readonly Need[] = [
  { group: "", resource: "serviceaccounts", verbs: ["get"], without: withoutRole, optional: true },
  {
    group: "",
    resource: "serviceaccounts",
    subresource: "token",
    verbs: ["create"],
    without: withoutRole,
    optional: true,
  },
];

const withoutLegacy = "deployments of flux.kluctl.io are not served";
const ofLegacy: readonly Need[] = [
  {
    group: "flux.kluctl.io",
    resource: "kluctldeployments",
    verbs: ["get", "list", "watch", "patch"],
    without: withoutLegacy,
  },
  {
    group: "flux.kluctl.io",
    resource: "kluctldeployments",
    subresource: "status",
    verbs: ["patch"],
    without: withoutLegacy,
  },
  {
    group: "source.toolkit.fluxcd.io",
    resource: "gitrepositories",
    verbs: ["get", "list", "watch"],
    without: `${withoutLegacy} that follow one`,
  },
];

const forFluxTrigger: Need = {
  group: "source.toolkit.fluxcd.io",
  resource: "gitrepositories",
  verbs: ["get", "list", "watch", "patch"],
  without: "Flux is not made to fetch (flux.trigger)",
};

const withoutFluxStatuses = "what Flux applies is not reported (flux.statuses)";
const withoutFluxPreviews = "pull requests do not show what they change in what Flux applies (flux.previews)";
const ofFlux: readonly Pick<Need, "group" | "resource">[] = [
  { group: "source.toolkit.fluxcd.io", resource: "gitrepositories" },
  { group: "source.toolkit.fluxcd.io", resource: "helmcharts" },
  { group: "kustomize.toolkit.fluxcd.io", resource: "kustomizations" },
  { group: "helm.toolkit.fluxcd.io", resource: "helmreleases" },
];
const forFlux = (without: string): readonly Need[] =>
  ofFlux.map((kind) => ({ ...kind, verbs: ["get", "list", "watch"], without }));

const withoutOverrides = "source overrides of `kluctl gitops` do not work";
const forOverrides: readonly Need[] = [
  {
    group: "",
    resource: "secrets",
    name: "kluctl-source-override-secret",
    verbs: ["get", "create", "update"],
    without: withoutOverrides,
  },
  {
    group: "",
    resource: "configmaps",
    name: "kluctl-source-override-ca",
    verbs: ["get", "create", "patch"],
    without: withoutOverrides,
  },
];

const forNotifications: Need = {
  group: "",
  resource: "configmaps",
  verbs: ["get", "create", "update"],
  without: "no notifications are sent, because they cannot be recorded",
};

const inResults: Need = {
  group: "",
  resource: "secrets",
  verbs: ["list", "create", "patch", "delete"],
  without: "results cannot be stored, so `kluctl gitops` and the web UI show none",
};

const asLeader: Need = {
  group: "coordination.k8s.io",
  resource: "leases",
  name: "5ab5d0f9.kluctl.io",
  verbs: ["get", "create", "update"],
  without: "leader election with kluctl's own controller does not work, so both may run at the same time",
};

const aboutItself: Need = {
  group: "",
  resource: "events",
  verbs: ["create"],
  without: "no Events are written for a changed configuration",
  optional: true,
};

/** Each permission and its namespace; `undefined`: all namespaces. */
function neededRights({
  namespaces,
  resultsNamespace,
  leader,
  overrides,
  notifications,
  legacy,
  triggersFlux,
  reportsFlux,
  previewsFlux,
  decrypts,
  readsSecrets,
}: Omit<PermissionsInput, "accounts" | "previewAccounts" | "asServer" | "operatorGroups" | "asksWhatPeopleSee">): {
  need: Need;
  namespace: string | undefined;
}[] {
  const everywhere: readonly (string | undefined)[] = namespaces.length === 0 ? [undefined] : namespaces;
  const everywhereNeeded = [
    ...perNamespace,
    ...(readsSecrets ? [forSecrets] : []),
    ...(legacy ? ofLegacy : []),
    ...(triggersFlux ? [forFluxTrigger] : []),
    ...(reportsFlux ? forFlux(withoutFluxStatuses) : previewsFlux ? forFlux(withoutFluxPreviews) : []),
    ...(decrypts ? forDecryption : []),
  ];
  return [
    ...everywhere.flatMap((namespace) => everywhereNeeded.map((need) => ({ need, namespace }))),
    { need: inResults, namespace: resultsNamespace },
    ...(overrides === undefined ? [] : forOverrides.map((need) => ({ need, namespace: overrides }))),
    ...(notifications?.names ?? []).map((name) => ({
      need: { ...forNotifications, name },
      namespace: notifications?.namespace,
    })),
    ...(leader === undefined ? [] : [asLeader, aboutItself].map((need) => ({ need, namespace: leader }))),
  ];
}

export async function examinePermissions(
  cluster: Pick<DoctorCluster, "may" | "namespaceExists">,
  input: PermissionsInput,
): Promise<Finding[]> {
  const { resultsNamespace, accounts, previewAccounts, asServer, operatorGroups, asksWhatPeopleSee } = input;
  const judged = await Promise.all(neededRights(input).map(({ need, namespace }) => judge(cluster, need, namespace)));
  const kubeSystem = { group: "", resource: "namespaces", name: "kube-system" };
  const more = await Promise.all([
    readsKubeSystem(cluster, kubeSystem),
    resultsNamespaceThere(cluster, resultsNamespace),
    ...accounts.map((account) => impersonates(cluster, account)),
    ...previewAccounts.map((account) => givesToken(cluster, account)),
    ...operatorGroups.map((name) => asksFor(cluster, name)),
    ...(asksWhatPeopleSee ? [reviewsAccess(cluster)] : []),
    ...(asServer ? [deploysAnything(cluster)] : []),
  ]);
  return [...judged, ...more];
}

async function judge(
  cluster: Pick<DoctorCluster, "may">,
  { group, resource, subresource, name, verbs, without, optional }: Need,
  namespace: string | undefined,
): Promise<Finding> {
  const subject = textOf({ verb: "", group, resource, subresource, namespace });
  const allowed = await Promise.all(
    verbs.map((verb) =>
      cluster.may({ verb, group, resource, subresource, namespace, name: verb === "create" ? undefined : name }),
    ),
  );
  const missing = verbs.filter((_, index) => !allowed[index]);
  if (missing.length === 0) return ok(subject, verbs.join(", "));
  const report = optional ? warning : problem;
  return report(subject, `may not ${missing.join(", ")}: ${without}`, "grant it to the server's service account");
}

/** Its UID identifies the cluster in every result. */
async function readsKubeSystem(
  cluster: Pick<DoctorCluster, "may">,
  attributes: Omit<AccessReview, "verb">,
): Promise<Finding> {
  const { group, resource } = attributes;
  const may =
    (await cluster.may({ verb: "get", ...attributes })) || (await cluster.may({ verb: "list", group, resource }));
  const subject = "namespace kube-system";
  return may
    ? ok(subject, "get")
    : problem(subject, "may not get it: its UID identifies the cluster in results", "grant get on namespaces");
}

async function resultsNamespaceThere(
  cluster: Pick<DoctorCluster, "may" | "namespaceExists">,
  name: string,
): Promise<Finding> {
  const subject = `namespace ${name}`;
  try {
    if (await cluster.namespaceExists(name)) return ok(subject, "exists");
  } catch (error) {
    // The server does not need to read it: its permissions in the namespace are checked above.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return ok(subject, "not checked: no permission to read namespaces");
  }
  const mayCreate = await cluster.may({ verb: "create", group: "", resource: "namespaces" });
  return mayCreate
    ? ok(subject, "does not exist yet; the server creates it")
    : problem(subject, "does not exist, and the server may not create it", `kubectl create namespace ${name}`);
}

async function impersonates(
  cluster: Pick<DoctorCluster, "may">,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<Finding> {
  const subject = `service account ${namespace}/${name}`;
  const may = await cluster.may({ verb: "impersonate", group: "", resource: "serviceaccounts", namespace, name });
  return may
    ? ok(subject, "impersonate")
    : problem(
        subject,
        "may not impersonate it",
        "grant impersonate on serviceaccounts to the server's service account",
      );
}

async function givesToken(
  cluster: Pick<DoctorCluster, "may">,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<Finding> {
  const subject = `tokens of service account ${namespace}/${name}`;
  const token = { group: "", resource: "serviceaccounts", subresource: "token", namespace, name };
  return (await cluster.may({ verb: "create", ...token }))
    ? ok(subject, "create")
    : problem(
        subject,
        "may not create them: pull requests are not previewed for its deployments",
        "grant create on serviceaccounts/token of that account to the server's service account; see docs/rights.md",
      );
}

async function reviewsAccess(cluster: Pick<DoctorCluster, "may">): Promise<Finding> {
  const subject = "subjectaccessreviews.authorization.k8s.io";
  return (await cluster.may({ verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews" }))
    ? ok(subject, "create")
    : warning(
        subject,
        "may not create them: users who log in see nothing on the page",
        "grant create on subjectaccessreviews to the server's service account, or set page.actAs: server; see docs/rights.md",
      );
}

/** The members of the group cannot be listed here. */
async function asksFor(cluster: Pick<DoctorCluster, "may">, name: string): Promise<Finding> {
  const subject = `group ${name}`;
  return (await cluster.may({ verb: "impersonate", group: "", resource: "groups", name }))
    ? ok(subject, "impersonate")
    : warning(
        subject,
        "may not impersonate it: its members cannot send requests on the page",
        "with the chart, list the users in rbac.pageUsers; see docs/rights.md",
      );
}

async function deploysAnything(cluster: Pick<DoctorCluster, "may">): Promise<Finding> {
  const subject = "everything else";
  const may = await cluster.may({ verb: "*", group: "*", resource: "*" });
  return may
    ? ok(subject, "all permissions, for deployments without a serviceAccountName")
    : warning(
        subject,
        "the server is not cluster-admin: deployments without a serviceAccountName are deployed with the server's permissions",
        "set a serviceAccountName on them, or grant the server permissions for their objects",
      );
}

function textOf({ group, resource, subresource, namespace }: AccessReview): string {
  const name = [resource, ...(subresource ? [subresource] : [])].join("/");
  return `${name}${group === "" ? "" : `.${group}`}${namespace === undefined ? "" : ` in ${namespace}`}`;
}
