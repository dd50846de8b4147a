/**
 * Whether an object is ready according to its kind: the rules of kstatus and of `kluctl validate`, which agree on
 * everything that both know. Pure.
 */
import type { ObjectHealth } from "../model.ts";
import { fieldsOf, type JsonObject } from "../kit/json.ts";
import { kindIdOf } from "../model/object-kind.ts";

type Readiness = Pick<ObjectHealth, "state" | "why">;

const current: Readiness = { state: "current" };
const waiting = (why: string): Readiness => ({ state: "in-progress", why });
const failed = (why: string): Readiness => ({ state: "failed", why });

/** What is true of objects of all kinds: `undefined` if nothing of it decides. */
export function commonReadiness(object: JsonObject): Readiness | undefined {
  const metadata = fieldsOf(object["metadata"]);
  const observed = fieldsOf(object["status"])["observedGeneration"];
  if (metadata["deletionTimestamp"] !== undefined) return waiting("it is being deleted");
  if (typeof observed === "number" && observed !== metadata["generation"])
    return waiting("its controller has not seen it yet");
  return undefined;
}

export function readinessOf(object: JsonObject): Readiness {
  const isReady = fieldsOf(fieldsOf(object["metadata"])["annotations"])["kluctl.io/is-ready"];
  if (isReady === "true") return current;
  if (isReady !== undefined) return waiting("its annotation kluctl.io/is-ready is not true");
  const common = commonReadiness(object);
  if (common !== undefined) return common;
  if (conditionOf(object, "Reconciling")?.status === "True") return waiting("it is being reconciled");
  if (conditionOf(object, "Stalled")?.status === "True") return failed("its condition Stalled is True");
  return (byKind[kindIdOf(object)] ?? byReadyCondition)(object);
}

const byKind: Readonly<Record<string, (object: JsonObject) => Readiness>> = {
  "apps/Deployment"(object) {
    const [spec, status] = [fieldsOf(object["spec"]), fieldsOf(object["status"])];
    if (conditionOf(object, "Progressing")?.reason === "ProgressDeadlineExceeded") {
      return failed("its progress deadline is exceeded");
    }
    const wanted = numberIn(spec, "replicas", 1);
    if (numberIn(status, "updatedReplicas") < wanted) return waiting("not all pods are updated");
    if (numberIn(status, "replicas") > numberIn(status, "updatedReplicas")) return waiting("old pods are left");
    if (numberIn(status, "availableReplicas") < wanted) return waiting("not all pods are available");
    return current;
  },
  "apps/StatefulSet"(object) {
    const [spec, status] = [fieldsOf(object["spec"]), fieldsOf(object["status"])];
    const strategy = fieldsOf(spec["updateStrategy"]);
    if (strategy["type"] === "OnDelete") return current;
    const wanted = numberIn(spec, "replicas", 1);
    const partition = numberIn(fieldsOf(strategy["rollingUpdate"]), "partition");
    if (numberIn(status, "readyReplicas") < wanted) return waiting("not all pods are ready");
    if (numberIn(status, "updatedReplicas") < wanted - partition) return waiting("not all pods are updated");
    const isDone = partition > 0 || status["currentRevision"] === status["updateRevision"];
    return isDone ? current : waiting("old pods are left");
  },
  "apps/DaemonSet"(object) {
    const status = fieldsOf(object["status"]);
    if (status["desiredNumberScheduled"] === undefined) return waiting("it has no status yet");
    const wanted = numberIn(status, "desiredNumberScheduled");
    if (fieldsOf(fieldsOf(object["spec"])["updateStrategy"])["type"] === "OnDelete") return current;
    if (numberIn(status, "updatedNumberScheduled") < wanted) return waiting("not all pods are updated");
    if (numberIn(status, "numberAvailable") < wanted) return waiting("not all pods are available");
    return current;
  },
  "apps/ReplicaSet"(object) {
    const wanted = numberIn(fieldsOf(object["spec"]), "replicas", 1);
    return numberIn(fieldsOf(object["status"]), "availableReplicas") < wanted
      ? waiting("not all pods are available")
      : current;
  },
  "/Pod"(object) {
    const phase = fieldsOf(object["status"])["phase"];
    if (phase === "Succeeded") return current;
    if (phase === "Failed") return failed("it has failed");
    return conditionOf(object, "Ready")?.status === "True" ? current : waiting("it is not ready");
  },
  "/PersistentVolumeClaim": (object) =>
    fieldsOf(object["status"])["phase"] === "Bound" ? current : waiting("it is not bound"),
  "/Service"(object) {
    const spec = fieldsOf(object["spec"]);
    const ingress = fieldsOf(fieldsOf(object["status"])["loadBalancer"])["ingress"];
    const waits = spec["type"] === "LoadBalancer" && !isFilled(ingress) && !isFilled(spec["externalIPs"]);
    return waits ? waiting("it has no address yet") : current;
  },
  "batch/Job"(object) {
    if (conditionOf(object, "Failed")?.status === "True") return failed("it has failed");
    const isOver = conditionOf(object, "Complete")?.status === "True" || fieldsOf(object["spec"])["suspend"] === true;
    return isOver ? current : waiting("it is not complete");
  },
  "batch/CronJob": () => current,
  "policy/PodDisruptionBudget"(object) {
    const status = fieldsOf(object["status"]);
    const isMet = numberIn(status, "currentHealthy") >= numberIn(status, "desiredHealthy");
    return isMet ? current : waiting("not enough pods are healthy");
  },
  "apiextensions.k8s.io/CustomResourceDefinition"(object) {
    if (conditionOf(object, "NamesAccepted")?.status === "False") return failed("its names are taken");
    return conditionOf(object, "Established")?.status === "True" ? current : waiting("it is not established");
  },
};

/** An object without this condition, such as a ConfigMap, is ready as soon as it exists. */
function byReadyCondition(object: JsonObject): Readiness {
  const ready = conditionOf(object, "Ready");
  return ready === undefined || ready.status === "True" ? current : waiting("its condition Ready is not True");
}

function conditionOf(
  object: JsonObject,
  type: string,
): { readonly status: unknown; readonly reason: unknown } | undefined {
  const { conditions } = fieldsOf(object["status"]);
  const found = Array.isArray(conditions) ? conditions.map(fieldsOf).find((one) => one["type"] === type) : undefined;
  return found && { status: found["status"], reason: found["reason"] };
}

function numberIn(object: JsonObject, field: string, byDefault = 0): number {
  const value = object[field];
  return typeof value === "number" ? value : byDefault;
}

function isFilled(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0;
}
