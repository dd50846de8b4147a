import { expect, test } from "vitest";
import { changed, created, linesOf } from "./find.ts";

const role = "rbac.authorization.k8s.io/ClusterRole";
const binding = "rbac.authorization.k8s.io/ClusterRoleBinding";
const general = "far-reaching: it changes permissions wherever it is bound";
const generalBinding = "far-reaching: it changes permissions in the whole cluster";

const rule = (group: string, resource: string, verb: string, more: object = {}) => ({
  apiGroups: [group],
  resources: [resource],
  verbs: [verb],
  ...more,
});
const reads = rule("apps", "deployments", "get");

const everyVerb = "security: it newly allows every verb on some resources, wherever it is bound";
const everyResource = "security: it newly allows some verbs on every resource, wherever it is bound";
const everyOfGroups = "security: it newly allows some verbs on every resource of some API groups, wherever it is bound";
const secrets = "security: it newly gives access to Secrets, wherever it is bound";
const exec = "security: it newly allows running commands in pods, or attaching to them";
const kubelet =
  "security: it newly allows access to the kubelet API: its subjects can run commands in every pod of a node";
const tokens = "security: it newly allows creating tokens of service accounts: its subjects can act as them";
const themselves = "its subjects can give themselves more permissions";

test.each([
  [rule("apps", "deployments", "*"), [everyVerb]],
  [{ nonResourceURLs: ["/metrics"], verbs: ["*"] }, [everyVerb]],
  [rule("apps", "*", "get"), [everyOfGroups]],
  [rule("*", "*", "get"), [everyResource]],
  [rule("", "pods/exec", "create"), [exec]],
  [rule("", "pods/attach", "get"), [exec]],
  [rule("*", "*/exec", "*"), [everyVerb, exec]],
  [rule("", "pods/exec", "delete"), [general]],
  [rule("example.com", "pods/exec", "create"), [general]],
  [rule("", "pods", "create"), [general]],
  [rule("", "nodes/proxy", "get"), [kubelet]],
  [rule("", "serviceaccounts/token", "create"), [tokens]],
  [rule("", "serviceaccounts/token", "get"), [general]],
  [rule("*", "*", "*"), [everyVerb, everyResource]],
  [rule("", "secrets", "get"), [secrets]],
  [rule("", "secrets", "list", { resourceNames: ["db"] }), [secrets]],
  [rule("example.com", "secrets", "get"), [general]],
  [
    rule("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    [`security: it newly allows the verb escalate: ${themselves}`],
  ],
  [
    rule("rbac.authorization.k8s.io", "clusterroles", "bind"),
    [`security: it newly allows the verb bind: ${themselves}`],
  ],
  [
    rule("", "users", "impersonate"),
    ["security: it newly allows the verb impersonate: its subjects can act as other users"],
  ],
  [reads, [general]],
])("a role with the rule %j is described, new or changed", (added, lines) => {
  expect(linesOf(created(role, { rules: [reads, added] }))).toEqual(lines);
  expect(linesOf(changed(role, { rules: [reads] }, { rules: [added, reads] }))).toEqual(lines);
});

test.each([
  ["the same", [rule("", "secrets", "get")], [reads, rule("", "secrets", "get")], false],
  ["less", [rule("*", "*", "*")], [rule("", "secrets", "*")], false],
  ["fewer verbs", [rule("", "secrets", "*")], [rule("", "secrets", "get")], false],
  ["a subresource", [rule("", "*", "create")], [rule("", "pods/exec", "create")], false],
  ["another subresource", [rule("", "pods/exec", "create")], [rule("", "pods/attach", "create")], true],
  ["all groups", [rule("apps", "*", "get")], [rule("*", "*", "get")], true],
  ["fewer groups", [rule("*", "*", "get")], [rule("apps", "*", "get")], false],
  ["one name", [rule("", "secrets", "get")], [rule("", "secrets", "get", { resourceNames: ["a"] })], false],
  ["one of many verbs", [rule("", "users", "*")], [rule("", "users", "impersonate")], false],
  [
    "all names, beside another verb",
    [rule("", "secrets", "get", { resourceNames: ["a"] }), rule("", "secrets", "list")],
    [rule("", "secrets", "get"), rule("", "secrets", "list")],
    true,
  ],
  ["another verb", [rule("", "secrets", "get")], [rule("", "secrets", "update")], true],
  ["all names", [rule("", "secrets", "get", { resourceNames: ["a"] })], [rule("", "secrets", "get")], true],
  [
    "another name",
    [rule("", "secrets", "get", { resourceNames: ["a"] })],
    [rule("", "secrets", "get", { resourceNames: ["b"] })],
    true,
  ],
  ["another resource", [rule("apps", "deployments", "*")], [rule("apps", "daemonsets", "*")], true],
  ["another group", [rule("apps", "*", "get")], [rule("batch", "*", "get")], true],
  ["labels only", undefined, undefined, false],
])("a role that had rights already is reported only if it gives more: %s", (_, before, after, more) => {
  const lines = linesOf(changed(role, { rules: before }, { rules: after }));
  expect(lines.every((line) => line.startsWith("security"))).toBe(more);
});

const bound = (name: string, ...subjects: readonly object[]) => ({
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
  subjects,
});
const ada = { kind: "User", name: "ada" };
const account = { kind: "ServiceAccount", name: "web", namespace: "shop" };
const group = (name: string) => ({ kind: "Group", name });

const admin = "security: its new subjects may do everything in the cluster (cluster-admin)";
const without = "security: everybody who reaches the API server newly has its permissions, without a login";
const withAny = "security: every user and every service account newly has its permissions";

const everyAccount = "security: every service account newly has its permissions";

test.each([
  [undefined, bound("cluster-admin", ada), [admin]],
  [undefined, bound("view", ada), [generalBinding]],
  [undefined, bound("cluster-admin"), [generalBinding]],
  [undefined, bound("view", group("system:unauthenticated"), { kind: "User", name: "system:anonymous" }), [without]],
  [undefined, bound("cluster-admin", group("system:authenticated")), [admin, withAny]],
  [bound("cluster-admin", ada), bound("cluster-admin", ada, account), [admin]],
  [bound("cluster-admin", ada, account), bound("cluster-admin", ada), [generalBinding]],
  [bound("view", group("system:authenticated")), bound("view", group("system:authenticated"), ada), [generalBinding]],
  [bound("cluster-admin", account), bound("cluster-admin", { ...account, namespace: "other" }), [admin]],
  [bound("view", ada), bound("cluster-admin", ada), [admin]],
  [undefined, bound("view", group("system:serviceaccounts")), [everyAccount]],
  [undefined, bound("view", group("system:masters")), [generalBinding]], // which may do everything anyway
])("a binding is described: %j → %j", (before, after, lines) => {
  const object = before === undefined ? created(binding, after) : changed(binding, before, after);
  expect(linesOf(object).filter((line) => !line.startsWith("immutable"))).toEqual(lines);
});

const inNamespace = "far-reaching: it changes permissions in its namespace";
const owner = (name: string) => ({ roleRef: { kind: "Role", name }, subjects: [ada] });

test.each([
  [bound("cluster-admin", ada), ["security: its new subjects may do everything in its namespace (cluster-admin)"]],
  [owner("cluster-admin"), [inNamespace]],
  [bound("view", ada), [inNamespace]],
  [
    bound("view", group("system:unauthenticated")),
    ["security: everybody who reaches the API server newly has its permissions in its namespace, without a login"],
  ],
  [
    bound("view", group("system:authenticated")),
    ["security: every user and every service account newly has its permissions in its namespace"],
  ],
  [
    bound("view", group("system:serviceaccounts")),
    ["security: every service account newly has its permissions in its namespace"],
  ],
])("a binding in a namespace is described: %j", (binding, lines) => {
  expect(linesOf(created("rbac.authorization.k8s.io/RoleBinding", binding))).toEqual(lines);
});

const labeled = (...roles: readonly string[]) => ({
  metadata: {
    labels: Object.fromEntries(roles.map((name) => [`rbac.authorization.k8s.io/aggregate-to-${name}`, "true"])),
  },
});

test("a dangerous role that is added to a role of Kubernetes by a label is reported", () => {
  const toView = "security: its labels add its permissions to the role view";
  const toAll = "security: its labels add its permissions to the roles admin, edit, view";
  const rules = [rule("", "secrets", "get")];
  expect(linesOf(created(role, { ...labeled("view"), rules }))).toEqual([secrets, toView]);
  expect(linesOf(created(role, { ...labeled("view", "edit", "admin"), rules }))).toEqual([secrets, toAll]);
  expect(linesOf(changed(role, { rules }, { ...labeled("view"), rules }))).toEqual([toView]);
  expect(linesOf(changed(role, { ...labeled("view"), rules }, { ...labeled("view"), rules }))).toEqual([general]);
  expect(linesOf(created(role, { ...labeled("view", "own"), rules: [reads] }))).toEqual([general]);
});
