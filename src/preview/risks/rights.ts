/**
 * Rights that roles and bindings newly give and that reviewers look for. They are those of
 * https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks.
 */
import type { ObjectRef } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { idOf, listIn, textIn, textsIn } from "./fields.ts";
import type { States } from "./states.ts";

/** The dangerous rights that it newly gives, in words. */
export function describeRights(ref: ObjectRef, states: States): string[] {
  if (idOf(ref) === "rbac.authorization.k8s.io/ClusterRole") return describeRole(states);
  if (idOf(ref) === "rbac.authorization.k8s.io/ClusterRoleBinding") return describeBinding(states, "");
  if (idOf(ref) === "rbac.authorization.k8s.io/RoleBinding") return describeBinding(states, " in its namespace");
  return [];
}

interface Rule {
  readonly groups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Empty if it concerns all objects of its resources. */
  readonly names: readonly string[];
  readonly urls: readonly string[];
}

/** One thing that a rule allows, such as `["verb", "get"]`. They are only compared: the comment shows none of them. */
type Grant = readonly [dimension: string, value: string];

type Has = (list: readonly string[], value: string) => boolean;
const mentions: Has = (list, value) => list.includes(value);
const covers: Has = (list, value) => list.includes(value) || list.includes("*");

interface Danger {
  readonly words: string;
  /** What the rule gives of it, in a number of grants that is linear in the size of the rule. */
  grants(rule: Rule, has: Has): readonly Grant[];
  /** Whether a graver danger covers what a new rule gives of it. */
  isCovered?(rule: Rule): boolean;
}

const dangers: readonly Danger[] = [
  {
    words: "it newly allows every verb on some resources, wherever it is bound",
    grants: (rule, has) => (has(rule.verbs, "*") ? [...onResources(rule), ...each("url", rule.urls)] : []),
  },
  {
    words: "it newly allows some verbs on every resource, wherever it is bound",
    grants: (rule, has) =>
      has(rule.resources, "*") && rule.groups.includes("*") ? scoped(rule, "verb", rule.verbs) : [],
  },
  {
    words: "it newly allows some verbs on every resource of some API groups, wherever it is bound",
    grants: (rule, has) =>
      has(rule.resources, "*") ? [...scoped(rule, "verb", rule.verbs), ...each("group", rule.groups)] : [],
    isCovered: ({ groups }) => groups.includes("*"),
  },
  {
    words: "it newly gives access to Secrets, wherever it is bound",
    grants: (rule, has) => (has(rule.resources, "secrets") && isOfCore(rule) ? scoped(rule, "verb", rule.verbs) : []),
  },
  ...(["escalate", "bind"] as const).map((verb): Danger => ({
    words: `it newly allows the verb ${verb}: its subjects can give themselves more permissions`,
    grants: (rule, has) => (has(rule.verbs, verb) ? onResources(rule) : []),
  })),
  {
    words: "it newly allows the verb impersonate: its subjects can act as other users",
    grants: (rule, has) => (has(rule.verbs, "impersonate") ? onResources(rule) : []),
  },
  {
    words: "it newly allows access to the kubelet API: its subjects can run commands in every pod of a node",
    grants: (rule, has) => onParts(rule, has, [["nodes", "proxy"]], ["get", "create"]),
  },
  {
    words: "it newly allows creating tokens of service accounts: its subjects can act as them",
    grants: (rule, has) => onParts(rule, has, [["serviceaccounts", "token"]], ["create"]),
  },
  {
    words: "it newly allows running commands in pods, or attaching to them",
    // A websocket is opened with a GET request.
    grants: (rule, has) => onParts(rule, has, [["pods", "exec"], ["pods", "attach"]], ["get", "create"]), // prettier-ignore
  },
];

type Part = readonly [resource: string, subresource: string];

/** Subresources of the core group. `*` stands for all resources with all their subresources. */
function onParts(rule: Rule, has: Has, parts: readonly Part[], verbs: readonly string[]): Grant[] {
  const given = rule.verbs.filter((verb) => verb === "*" || verbs.includes(verb));
  const isGiven = ([resource, sub]: Part) =>
    has(rule.resources, `${resource}/${sub}`) || rule.resources.includes(`*/${sub}`);
  const found = parts.filter(isGiven).map(([, sub]) => sub);
  if (given.length === 0 || found.length === 0 || !isOfCore(rule)) return [];
  return [...scoped(rule, "verb", given), ...each("subresource", found)];
}

/** Of a rule of which only changes are known, the groups may be missing. */
function isOfCore({ groups }: Rule): boolean {
  return groups.length === 0 || groups.includes("") || groups.includes("*");
}

function onResources(rule: Rule): Grant[] {
  return [...scoped(rule, "resource", rule.resources), ...each("group", rule.groups)];
}

/** What is allowed for all names is also allowed for some. */
function scoped(rule: Rule, dimension: string, values: readonly string[]): Grant[] {
  const some = [...each(`${dimension} of some`, values), ...each("name", rule.names)];
  return rule.names.length > 0 ? some : [...some, ...each(`${dimension} of all`, values), ["name", "*"]];
}

function each(dimension: string, values: readonly string[]): Grant[] {
  return values.map((value) => [dimension, value]);
}

function describeRole({ before, after }: States): string[] {
  const [old, now] = [rulesIn(before), rulesIn(after)];
  const found = dangersOf(now, old);
  const had = rolesWith(before);
  const isDangerous = dangersOf(now, []).length > 0;
  const roles = rolesWith(after).filter((role) => found.length > 0 || (isDangerous && !had.includes(role)));
  const receiving = roles.length === 1 ? `the role ${roles.join()}` : `the roles ${roles.join(", ")}`;
  return [...found, ...(roles.length > 0 ? [`its labels add its permissions to ${receiving}`] : [])];
}

/** What the rules give that the former ones did not, in words. */
function dangersOf(rules: readonly Rule[], former: readonly Rule[]): string[] {
  return dangers
    .filter(({ grants, isCovered }) => {
      const known = new Set(former.flatMap((rule) => grants(rule, covers)).map(keyOf));
      const isKnown = ([dimension, value]: Grant) =>
        known.has(keyOf([dimension, value])) || known.has(keyOf([dimension, "*"]));
      const isNew = (rule: Rule) => grants(rule, mentions).some((grant) => !isKnown(grant));
      return rules.some((rule) => isCovered?.(rule) !== true && isNew(rule));
    })
    .map(({ words }) => words);
}

/** https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles */
function rolesWith(state: unknown): string[] {
  const labelOf = (role: string) =>
    field(state, "metadata", "labels", `rbac.authorization.k8s.io/aggregate-to-${role}`);
  return ["admin", "edit", "view"].filter((role) => labelOf(role) === "true");
}

function keyOf([dimension, value]: Grant): string {
  return `${dimension} ${value}`;
}

function rulesIn(role: unknown): Rule[] {
  return listIn(role, "rules").map((rule) => ({
    groups: textsIn(rule, "apiGroups"),
    resources: textsIn(rule, "resources"),
    verbs: textsIn(rule, "verbs"),
    names: textsIn(rule, "resourceNames"),
    urls: textsIn(rule, "nonResourceURLs"),
  }));
}

const withoutLogin = (where: string) =>
  `everybody who reaches the API server newly has its permissions${where}, without a login`;

/**
 * The members of `system:masters` are missing: no role restricts them, so that a binding gives them nothing.
 */
const everybody: Readonly<Record<string, (where: string) => string>> = {
  "User system:anonymous": withoutLogin,
  "Group system:unauthenticated": withoutLogin,
  "Group system:authenticated": (where) => `every user and every service account newly has its permissions${where}`,
  "Group system:serviceaccounts": (where) => `every service account newly has its permissions${where}`,
};

/** `where` is empty if the binding gives permissions in the whole cluster. */
function describeBinding({ before, after }: States, where: string): string[] {
  const roleOf = (state: unknown) => `${textIn(state, "roleRef", "kind")} ${textIn(state, "roleRef", "name")}`;
  const known = new Set(roleOf(before) === roleOf(after) ? listIn(before, "subjects").map(subjectOf) : []);
  const added = listIn(after, "subjects")
    .map(subjectOf)
    .filter((subject) => !known.has(subject));
  const all = added.flatMap((subject) =>
    Object.hasOwn(everybody, subject) ? (everybody[subject]?.(where) ?? []) : [],
  );
  const isAdmin = /^(?:ClusterRole)? cluster-admin$/.test(roleOf(after));
  return [
    ...(isAdmin && added.length > 0
      ? [`its new subjects may do everything${where === "" ? " in the cluster" : where} (cluster-admin)`]
      : []),
    ...new Set(all),
  ];
}

function subjectOf(subject: unknown): string {
  const text = `${textIn(subject, "kind")} ${textIn(subject, "name")}`;
  const namespace = textIn(subject, "namespace");
  return namespace === "" ? text : `${text} of ${namespace}`;
}
