/** What the server has to be allowed, verb by verb, and whether it is. */
import { ApiError } from "../errors.ts";
import type { Access, DoctorCluster } from "./cluster.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

export interface PermissionsInput {
  /** Empty: all. */
  readonly namespaces: readonly string[];
  readonly resultsNamespace: string;
  /** Where the Lease is that says who serves the cluster; absent if nobody asks. */
  readonly leader: string | undefined;
  /** Where the keys lie by which `kluctl gitops` offers local files; absent if it cannot. */
  readonly overrides: string | undefined;
  /** The cluster knows the older API, `flux.kluctl.io`. */
  readonly legacy: boolean;
  /** Secrets that deployments name are read with its own login, not as their accounts. */
  readonly readsSecrets: boolean;
  /** Some deployments decrypt files. */
  readonly decrypts: boolean;
  /** `namespace/name` of the accounts that deployments are deployed as. */
  readonly accounts: readonly { readonly namespace: string; readonly name: string }[];
  /** Those that confined previews act as, each with a token of its own. */
  readonly previewAccounts: readonly { readonly namespace: string; readonly name: string }[];
  /** Some deployments are deployed with the server's own rights. */
  readonly asServer: boolean;
  /** Groups, as the cluster knows them, of people who may ask for something on the page, and are asked for in their name. */
  readonly operatorGroups: readonly string[];
  /** People come to the page by name, and the cluster is asked what they may see. */
  readonly asksWhatPeopleSee: boolean;
}

/** What the server has to be allowed with its own login, whoever deploys. */
export interface Need {
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  /** One is enough; to create it, no name can be asked for. */
  readonly name?: string;
  readonly verbs: readonly string[];
  /** What does not work without. */
  readonly without: string;
  /** Nothing is wrong without, for most. */
  readonly optional?: boolean;
}

/** In every namespace with deployments. */
const perNamespace: readonly Need[] = [
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    verbs: ["get", "list", "watch"],
    without: "no deployment is seen",
  },
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    verbs: ["patch"],
    without: "requests cannot be taken and finalizers not set",
  },
  {
    group: "gitops.kluctl.io",
    resource: "kluctldeployments",
    subresource: "status",
    verbs: ["patch"],
    without: "no status can be written",
  },
  {
    group: "coordination.k8s.io",
    resource: "leases",
    verbs: ["get", "create", "update"],
    without: "nothing is deployed, for every deployment is worked on under a Lease",
  },
  { group: "", resource: "events", verbs: ["create", "patch"], without: "no Events are written" },
];

const forSecrets: Need = {
  group: "",
  resource: "secrets",
  verbs: ["get"],
  without: "logins and keys of deployments cannot be read",
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

const withoutOverrides = "`kluctl gitops` cannot offer files of its user's machine";
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

const inResults: Need = {
  group: "",
  resource: "secrets",
  verbs: ["list", "create", "patch", "delete"],
  without: "no result is stored, so `kluctl gitops` and the web UI show none",
};

const asLeader: Need = {
  group: "coordination.k8s.io",
  resource: "leases",
  name: "5ab5d0f9.kluctl.io",
  verbs: ["get", "create", "update"],
  without: "it cannot see whether kluctl's own controller runs, nor keep it from running",
};

const aboutItself: Need = {
  group: "",
  resource: "events",
  verbs: ["create"],
  without: "no Events tell of a changed configuration",
  optional: true,
};

/** Each right, and where: `undefined` is in all namespaces. */
function neededRights({
  namespaces,
  resultsNamespace,
  leader,
  overrides,
  legacy,
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
    ...(decrypts ? forDecryption : []),
  ];
  return [
    ...everywhere.flatMap((namespace) => everywhereNeeded.map((need) => ({ need, namespace }))),
    { need: inResults, namespace: resultsNamespace },
    ...(overrides === undefined ? [] : forOverrides.map((need) => ({ need, namespace: overrides }))),
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

/** Its UID tells clusters apart, in every result. */
async function readsKubeSystem(
  cluster: Pick<DoctorCluster, "may">,
  attributes: Omit<Access, "verb">,
): Promise<Finding> {
  const { group, resource } = attributes;
  const may =
    (await cluster.may({ verb: "get", ...attributes })) || (await cluster.may({ verb: "list", group, resource }));
  const subject = "namespace kube-system";
  return may
    ? ok(subject, "get")
    : problem(subject, "may not get it: its UID is the cluster's in every result", "grant get on namespaces");
}

async function resultsNamespaceThere(
  cluster: Pick<DoctorCluster, "may" | "namespaceExists">,
  name: string,
): Promise<Finding> {
  const subject = `namespace ${name}`;
  try {
    if (await cluster.namespaceExists(name)) return ok(subject, "is there");
  } catch (error) {
    // The server has no need to read it: what it may do in there has been asked.
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return ok(subject, "not looked at: there is no right to read namespaces");
  }
  const mayCreate = await cluster.may({ verb: "create", group: "", resource: "namespaces" });
  return mayCreate
    ? ok(subject, "is not there yet; the server makes it")
    : problem(subject, "is not there, and the server may not make it", `kubectl create namespace ${name}`);
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
        "may not create them: pull requests of its deployments are not previewed",
        "grant create on serviceaccounts/token of that account to the server's service account; docs/rights.md",
      );
}

async function reviewsAccess(cluster: Pick<DoctorCluster, "may">): Promise<Finding> {
  const subject = "subjectaccessreviews.authorization.k8s.io";
  return (await cluster.may({ verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews" }))
    ? ok(subject, "create")
    : warning(
        subject,
        "may not create them: people who log in see nothing on the page",
        "grant create on subjectaccessreviews to the server's service account, or set ui.actAs: server; docs/rights.md",
      );
}

/** Who is in it cannot be known here. */
async function asksFor(cluster: Pick<DoctorCluster, "may">, name: string): Promise<Finding> {
  const subject = `group ${name}`;
  return (await cluster.may({ verb: "impersonate", group: "", resource: "groups", name }))
    ? ok(subject, "impersonate")
    : warning(
        subject,
        "may not impersonate it: who is in it can ask for nothing on the page",
        "with the chart, name the people in rbac.pageUsers; docs/rights.md",
      );
}

async function deploysAnything(cluster: Pick<DoctorCluster, "may">): Promise<Finding> {
  const subject = "everything else";
  const may = await cluster.may({ verb: "*", group: "*", resource: "*" });
  return may
    ? ok(subject, "all rights, for deployments without a serviceAccountName")
    : warning(
        subject,
        "the server is no cluster-admin: deployments without a serviceAccountName are deployed with its own rights",
        "give them a serviceAccountName, or the server what they deploy",
      );
}

function textOf({ group, resource, subresource, namespace }: Access): string {
  const name = [resource, ...(subresource ? [subresource] : [])].join("/");
  return `${name}${group === "" ? "" : `.${group}`}${namespace === undefined ? "" : ` in ${namespace}`}`;
}
