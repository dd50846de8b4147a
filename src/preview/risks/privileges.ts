/**
 * What the pods of a workload may newly do on their nodes. The fields are those that the Pod Security Standards of
 * Kubernetes restrict in their levels Baseline and, for running as root and escalation, Restricted.
 */
import type { ObjectRef } from "../../model.ts";
import { field, listIn, textsIn } from "./fields.ts";
import { countOf, hasPods, type Pair, type Pods, podsOf } from "./pods.ts";
import type { States } from "./states.ts";

/** What the pods of a workload are newly allowed, in words. */
export function describePrivileges(ref: ObjectRef, states: States): string[] {
  if (!hasPods(ref)) return [];
  const pods = podsOf(ref, states);
  const count = (concerns: (pair: Pair) => boolean) => pods.containers.filter(concerns).length;
  return [
    ...(becomesTrue(pods, "hostNetwork") ? ["its pods use the network of their node"] : []),
    ...(becomesTrue(pods, "hostPID") ? ["its pods see the processes of their node"] : []),
    ...(becomesTrue(pods, "hostIPC") ? ["its pods share memory with processes of their node"] : []),
    ...(mountsNewPath(pods) ? ["its pods can access a directory of their node (hostPath)"] : []),
    ...countOf(
      count((pair) => becomesTrue(pair, "securityContext", "privileged")),
      "becomes privileged",
      "become privileged",
    ),
    ...countOf(count(mayEscalate), "may escalate its privileges", "may escalate their privileges"),
    ...countOf(count(getsCapability), "gets a dangerous capability", "get dangerous capabilities"),
    ...describeRoot(pods),
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

/** Absent means allowed, but most manifests leave it out: only its removal says something. */
function mayEscalate({ before, after }: Pair): boolean {
  const [was, is] = [before, after].map((container) => field(container, "securityContext", "allowPrivilegeEscalation"));
  return (is === true && was !== true) || (was === false && is !== false);
}

/** Those that the level Baseline allows to add. */
const harmless = new Set(
  (
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID " +
    "SYS_CHROOT"
  ).split(" "),
);

function getsCapability({ before, after }: Pair): boolean {
  const added = (container: unknown) =>
    textsIn(container, "securityContext", "capabilities", "add").map((name) => name.toUpperCase().replace(/^CAP_/, ""));
  const known = new Set(added(before));
  return !known.has("ALL") && added(after).some((name) => !harmless.has(name) && !known.has(name));
}

/** A container's own setting comes before that of the pod. */
function describeRoot({ before, after, containers }: Pods): string[] {
  const becomesRoot = (pair: Pair) => {
    const setting = (spec: unknown, container: unknown, name: string) =>
      field(container, "securityContext", name) ?? field(spec, "securityContext", name);
    const mustNot = (spec: unknown, container: unknown) => setting(spec, container, "runAsNonRoot") === true;
    const isRoot = (spec: unknown, container: unknown) =>
      setting(spec, container, "runAsUser") === 0 && !mustNot(spec, container);
    const mayNewly = pair.before !== undefined && mustNot(before, pair.before) && !mustNot(after, pair.after);
    return mayNewly || (isRoot(after, pair.after) && !isRoot(before, pair.before));
  };
  // Where only changes are known, there may be no container among them.
  if (containers.length === 0) {
    return becomesRoot({ before: {}, after: {} }) ? ["its pods may run as root"] : [];
  }
  return countOf(containers.filter(becomesRoot).length, "may run as root", "may run as root");
}
