/**
 * Rights in the whole cluster that a ClusterRole or ClusterRoleBinding newly gives and that reviewers look for. They are
 * those of https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks.
 */
import type { ObjectRef } from "../../model.ts";
import { idOf, listIn, textIn, textsIn } from "./fields.ts";
import type { States } from "./states.ts";

/** The dangerous rights that it newly gives, in words. */
export function describeRights(ref: ObjectRef, states: States): string[] {
  if (idOf(ref) === "rbac.authorization.k8s.io/ClusterRole") return describeRole(states);
  if (idOf(ref) === "rbac.authorization.k8s.io/ClusterRoleBinding") return describeBinding(states);
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
}

const dangers: readonly Danger[] = [
  {
    words: "it newly allows every verb on some resources, in the whole cluster",
    grants: (rule, has) => (has(rule.verbs, "*") ? [...onResources(rule), ...each("url", rule.urls)] : []),
  },
  {
    words: "it newly allows some verbs on every resource, in the whole cluster",
    grants: (rule, has) =>
      has(rule.resources, "*") ? [...scoped(rule, "verb", rule.verbs), ...each("group", rule.groups)] : [],
  },
  {
    words: "it newly gives access to Secrets in the whole cluster",
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
];

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
  return dangers
    .filter(({ grants }) => {
      const known = new Set(old.flatMap((rule) => grants(rule, covers)).map(keyOf));
      const isKnown = ([dimension, value]: Grant) =>
        known.has(keyOf([dimension, value])) || known.has(keyOf([dimension, "*"]));
      return now.some((rule) => grants(rule, mentions).some((grant) => !isKnown(grant)));
    })
    .map(({ words }) => words);
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

const withoutLogin = "everybody who reaches the API server newly has its permissions, without a login";
const everybody: Readonly<Record<string, string>> = {
  "User system:anonymous": withoutLogin,
  "Group system:unauthenticated": withoutLogin,
  "Group system:authenticated": "every user and every service account newly has its permissions",
};

function describeBinding({ before, after }: States): string[] {
  const roleOf = (state: unknown) => textIn(state, "roleRef", "name");
  const known = new Set(roleOf(before) === roleOf(after) ? listIn(before, "subjects").map(subjectOf) : []);
  const added = listIn(after, "subjects")
    .map(subjectOf)
    .filter((subject) => !known.has(subject));
  const all = added.flatMap((subject) => (Object.hasOwn(everybody, subject) ? (everybody[subject] ?? []) : []));
  return [
    ...(roleOf(after) === "cluster-admin" && added.length > 0
      ? ["its new subjects may do everything in the cluster (cluster-admin)"]
      : []),
    ...new Set(all),
  ];
}

function subjectOf(subject: unknown): string {
  const text = `${textIn(subject, "kind")} ${textIn(subject, "name")}`;
  const namespace = textIn(subject, "namespace");
  return namespace === "" ? text : `${text} of ${namespace}`;
}
