/**
 * Whether `kluctl validate` would find everything ready, judging by objects that kluctl has just read or applied. What
 * it says of an object follows from that object alone, so that a second run of kluctl would only repeat it. Pure.
 *
 * Only what kluctl (2.22.1 to 2.28.2) certainly finds ready counts as known: its rules are those of ValidateObject in
 * its pkg/validation. For everything else, kluctl is asked. test/integration/kluctl/known-ready.test.ts compares the
 * two.
 */
import { field, fieldsOf, type JsonObject } from "../kit/json.ts";
import { kindIdOf } from "../model/object-kind.ts";
import type { CommandResult, ResultObject } from "../model.ts";

/** A status may have changed since it was read, so a result that took longer than this proves nothing. */
const freshMs = 10_000;

/** Larger results would block the event loop while they are read here. */
const mostCharacters = 1_000_000;

/** The newest minor version of kluctl 2 whose rules are known. */
const newestMinor = 28;

/** Kinds of the API server itself that have no status. */
const withoutStatus: ReadonlySet<string> = new Set([
  "/ConfigMap",
  "/Endpoints",
  "/LimitRange",
  "/Secret",
  "/ServiceAccount",
  "admissionregistration.k8s.io/MutatingWebhookConfiguration",
  "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
  "networking.k8s.io/IngressClass",
  "networking.k8s.io/NetworkPolicy",
  "node.k8s.io/RuntimeClass",
  "rbac.authorization.k8s.io/ClusterRole",
  "rbac.authorization.k8s.io/ClusterRoleBinding",
  "rbac.authorization.k8s.io/Role",
  "rbac.authorization.k8s.io/RoleBinding",
  "scheduling.k8s.io/PriorityClass",
  "storage.k8s.io/CSIDriver",
  "storage.k8s.io/StorageClass",
]);

/** Annotations that change how an object is validated, that add to the result, or by which several objects share an entry. */
const special =
  /^(kluctl\.io\/(validate-ignore|is-ready|delete|diff-name|hook|hook-.*)|helm\.sh\/hook.*|validate-result\.kluctl\.io\/.*)$/;

/** Whether the rules of this version, as reported by kluctl, are those known here. */
export function hasKnownRules(version: string): boolean {
  const [major, minor] = version.split(".").map(Number);
  return major === 2 && minor !== undefined && minor <= newestMinor;
}

/** `deployed`: the result of a deploy, whose applied objects are in the cluster. `now`: epoch milliseconds. */
export function isKnownReady(result: CommandResult, { deployed, now }: { deployed: boolean; now: number }): boolean {
  const { document, errors, warnings } = result;
  if (errors.length > 0 || warnings.length > 0) return false;
  const command = document["command"] as { readonly startTime?: string; readonly dryRun?: boolean } | undefined;
  if (deployed && command?.dryRun) return false;
  const age = now - Date.parse(command?.startTime ?? "");
  if (!(age >= 0 && age <= freshMs)) return false;
  // kluctl validates what it renders. That may be deleted as well: by a hook of its own, or in order to be created again.
  const objects = result.objects.filter(
    ({ rendered, orphan, deleted }) => rendered !== undefined || !(orphan || deleted),
  );
  let left = mostCharacters;
  return objects.every((object) => {
    const live = deployed ? (object.applied ?? object.remote) : object.remote;
    left -= live?.length ?? 0;
    return left >= 0 && live !== undefined && isReady(object, live);
  });
}

function isReady({ hook, deleted, rendered }: ResultObject, live: string): boolean {
  if (hook || deleted || (rendered !== undefined && isSpecial(JSON.parse(rendered) as JsonObject))) return false;
  const object = JSON.parse(live) as JsonObject;
  if (isSpecial(object)) return false;
  const kind = kindIdOf(object);
  const { status } = object;
  if (status === undefined || status === null) return withoutStatus.has(kind);
  const observed = field(object, "status", "observedGeneration");
  if (observed !== undefined && observed !== field(object, "metadata", "generation")) return false;
  const isReadyKind = rules[kind];
  return isReadyKind === undefined || isReadyKind(object);
}

function isSpecial(object: JsonObject): boolean {
  return Object.keys(fieldsOf(field(object, "metadata", "annotations"))).some((name) => special.test(name));
}

/** What has to be true of a kind's object with a status; any other kind is ready as soon as its generation is observed. */
const rules: Readonly<Record<string, (object: JsonObject) => boolean>> = {
  "/Pod": () => false, // ready only once it has ended
  "cluster.x-k8s.io/MachineDeployment": () => false,
  "batch/Job": (job) => hasCondition(job, "Complete") && conditions(job, "Failed").length === 0,
  "apps/Deployment": (deployment) => {
    if (isAbsentOr0(field(deployment, "spec", "replicas"))) return true;
    const [ready, all] = [field(deployment, "status", "readyReplicas"), field(deployment, "status", "replicas")];
    return isCount(ready) && isCount(all) && ready >= all;
  },
  "/PersistentVolumeClaim": (claim) => field(claim, "status", "phase") === "Bound",
  "/Service": (service) => {
    const type = field(service, "spec", "type");
    if (type === "ExternalName") return true;
    const ip = field(service, "spec", "clusterIP");
    if (typeof ip !== "string" || ip === "") return false;
    return type !== "LoadBalancer" || isFilled(field(service, "spec", "externalIPs")) || isFilled(ingressOf(service));
  },
  "apps/DaemonSet": (set) => {
    if (field(set, "spec", "updateStrategy", "type") !== "RollingUpdate") return true;
    const updated = field(set, "status", "updatedNumberScheduled");
    const desired = field(set, "status", "desiredNumberScheduled");
    const ready = field(set, "status", "numberReady");
    return isCount(updated) && isCount(desired) && isCount(ready) && updated === desired && ready >= desired;
  },
  "apps/StatefulSet": (set) => {
    if (field(set, "spec", "updateStrategy", "type") !== "RollingUpdate") return true;
    const replicas = field(set, "spec", "replicas");
    if (replicas === 0) return true;
    if (field(set, "spec", "updateStrategy", "rollingUpdate", "partition")) return false;
    return field(set, "status", "updatedReplicas") === replicas && field(set, "status", "readyReplicas") === replicas;
  },
  "apiextensions.k8s.io/CustomResourceDefinition": (definition) => hasCondition(definition, "Established"),
};

function ingressOf(service: JsonObject): unknown {
  return field(service, "status", "loadBalancer", "ingress");
}

function conditions(object: JsonObject, type: string): readonly { readonly status?: unknown }[] {
  const all = field(object, "status", "conditions");
  return (Array.isArray(all) ? (all as { type?: unknown; status?: unknown }[]) : []).filter((one) => one.type === type);
}

function hasCondition(object: JsonObject, type: string): boolean {
  const found = conditions(object, type);
  return found.length === 1 && found[0]?.status === "True";
}

function isFilled(list: unknown): boolean {
  return Array.isArray(list) && list.length > 0;
}

function isCount(value: unknown): value is number {
  return typeof value === "number";
}

function isAbsentOr0(value: unknown): boolean {
  return value === undefined || value === 0;
}
