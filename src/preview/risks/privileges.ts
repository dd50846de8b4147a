/**
 * What the pods of a workload may newly do on their nodes. The fields are those that the Pod Security Standards of
 * Kubernetes restrict in their levels Baseline and, for running as root, escalation and dropped capabilities, Restricted.
 */
import type { ObjectRef } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { listIn, textsIn } from "./fields.ts";
import { countOf, hasPods, type Pair, type Pods, podsOf } from "./pods.ts";
import type { States } from "./states.ts";

/** What the pods of a workload are newly allowed, in words. */
export function describePrivileges(ref: ObjectRef, states: States): string[] {
  if (!hasPods(ref)) return [];
  const pods = podsOf(ref, states);
  const count = (concerns: (pair: Pair) => boolean) => pods.containers.filter(concerns).length;
  // The gravest first.
  return [
    ...countOf(
      count((pair) => becomesTrue(pair, "securityContext", "privileged")),
      "becomes privileged",
      "become privileged",
    ),
    ...countOf(count(getsCapability), "gets a dangerous capability", "get dangerous capabilities"),
    ...(mountsNewPath(pods) ? ["its pods can access a directory of their node (hostPath)"] : []),
    ...(becomesTrue(pods, "hostPID") ? ["its pods see the processes of their node"] : []),
    ...(becomesTrue(pods, "hostNetwork") ? ["its pods use the network of their node"] : []),
    ...(becomesTrue(pods, "hostIPC") ? ["its pods share memory with processes of their node"] : []),
    ...countOf(count(unmasksProc), "has an unmasked proc file system", "have unmasked proc file systems"),
    ...describeSeccomp(pods),
    ...describeRoot(pods),
    ...countOf(count(mayEscalate), "may escalate its privileges", "may escalate their privileges"),
    ...countOf(count(keepsCapabilities), "no longer drops all capabilities", "no longer drop all capabilities"),
    ...(usesNewPort(pods) ? ["its pods use a port of their node (hostPort)"] : []),
  ];
}

function becomesTrue({ before, after }: Pair, ...path: readonly string[]): boolean {
  return field(after, ...path) === true && field(before, ...path) !== true;
}

function mountsNewPath({ before, after }: Pods): boolean {
  const pathsIn = (spec: unknown) => listIn(spec, "volumes").map((volume) => field(volume, "hostPath", "path"));
  const known = new Set(pathsIn(before));
  return pathsIn(after).some((path) => typeof path === "string" && !known.has(path));
}

/** Absent means allowed, so only what was forbidden before can newly be allowed. */
function mayEscalate({ before, after }: Pair): boolean {
  const [was, is] = [before, after].map((container) => field(container, "securityContext", "allowPrivilegeEscalation"));
  return was === false && is !== false;
}

/** Those that the level Baseline allows to add. */
const harmless = new Set(
  (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID " +
    "SYS_CHROOT"
  ).split(" "),
);

function getsCapability({ before, after }: Pair): boolean {
  const known = new Set(capabilities(before, "add"));
  return !known.has("ALL") && capabilities(after, "add").some((name) => !harmless.has(name) && !known.has(name));
}

function keepsCapabilities({ before, after }: Pair): boolean {
  const [dropped, drops] = [before, after].map((container) => capabilities(container, "drop").includes("ALL"));
  return dropped === true && drops === false;
}

function capabilities(container: unknown, list: "add" | "drop"): string[] {
  const names = textsIn(container, "securityContext", "capabilities", list);
  return names.map((name) => name.toUpperCase().replace(/^CAP_/, ""));
}

function unmasksProc({ before, after }: Pair): boolean {
  const isUnmasked = (container: unknown) => field(container, "securityContext", "procMount") === "Unmasked";
  return isUnmasked(after) && !isUnmasked(before);
}

/** On the network of the node, every port is one of the node. */
function usesNewPort({ before, after }: Pods): boolean {
  const known = new Set(portsIn(before));
  return field(after, "hostNetwork") !== true && portsIn(after).some((port) => !known.has(port));
}

function portsIn(spec: unknown): number[] {
  return [...listIn(spec, "initContainers"), ...listIn(spec, "containers")]
    .flatMap((container) => listIn(container, "ports"))
    .map((port) => field(port, "hostPort"))
    .filter((port) => typeof port === "number")
    .filter((port) => port > 0);
}

function describeSeccomp(pods: Pods): string[] {
  const isUnconfined = (spec: unknown, container: unknown) =>
    settingOf(spec, container, "seccompProfile", "type") === "Unconfined";
  const loses = (pair: Pair) => isUnconfined(pods.after, pair.after) && !isUnconfined(pods.before, pair.before);
  return describeEach(pods, loses, ["runs without a seccomp filter", "run without a seccomp filter"]);
}

/** A container's own setting comes before that of the pod. */
function settingOf(spec: unknown, container: unknown, ...path: readonly string[]): unknown {
  return field(container, "securityContext", ...path) ?? field(spec, "securityContext", ...path);
}

/** Without a user, that of the image is used, which may be root. */
function describeRoot(pods: Pods): string[] {
  const mustNot = (spec: unknown, container: unknown) => settingOf(spec, container, "runAsNonRoot") === true;
  const userOf = (spec: unknown, container: unknown) => settingOf(spec, container, "runAsUser") ?? undefined;
  const isRoot = (spec: unknown, container: unknown) => userOf(spec, container) === 0 && !mustNot(spec, container);
  const becomesRoot = ({ before, after }: Pair) => {
    const wasForbidden = before !== undefined && mustNot(pods.before, before);
    const mayNewly = wasForbidden && !mustNot(pods.after, after) && userOf(pods.after, after) === undefined;
    return mayNewly || (isRoot(pods.after, after) && !isRoot(pods.before, before));
  };
  return describeEach(pods, becomesRoot, ["may run as root", "may run as root"]);
}

/** Where only changes are known, there may be no container among them, only settings of the pod. */
function describeEach(
  { containers }: Pods,
  concerns: (pair: Pair) => boolean,
  [one, many]: readonly [one: string, many: string],
): string[] {
  if (containers.length === 0) return concerns({ before: {}, after: {} }) ? [`its pods ${many}`] : [];
  return countOf(containers.filter(concerns).length, one, many);
}
