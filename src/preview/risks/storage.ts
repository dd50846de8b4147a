/**
 * Changes that the API server accepts and that cost data, now or when something is deleted later. Changes of storage
 * that it rejects are in refused.ts.
 */
import type { ObjectRef } from "../../model.ts";
import { field } from "../../kit/json.ts";
import { idOf, listIn } from "./fields.ts";
import { hasPods, podsOf } from "./pods.ts";
import { isLess } from "./quantity.ts";
import type { States } from "./states.ts";

/** What the change means for stored data, in words. */
export function describeStorage(ref: ObjectRef, states: States): string[] {
  if (states.before === undefined) return [];
  if (idOf(ref) === "/PersistentVolume") return describeVolume(states);
  return [...(idOf(ref) === "apps/StatefulSet" ? describeClaims(states) : []), ...describeMounts(ref, states)];
}

function describeVolume(states: States): string[] {
  return becomesDelete(states, "spec", "persistentVolumeReclaimPolicy")
    ? ["its reclaim policy becomes Delete: its data is deleted with its claim"]
    : [];
}

/** https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#persistentvolumeclaim-retention */
function describeClaims(states: States): string[] {
  const policy = ["spec", "persistentVolumeClaimRetentionPolicy"];
  const shrinks = isLess(field(states.after, "spec", "replicas"), field(states.before, "spec", "replicas"));
  const deletesScaled = field(states.after, ...policy, "whenScaled") === "Delete";
  return [
    ...(shrinks && deletesScaled ? ["it is scaled down, which deletes the volume claims of the removed pods"] : []),
    ...(becomesDelete(states, ...policy, "whenDeleted")
      ? ["its volume claims are newly deleted when it is deleted"]
      : []),
    ...(becomesDelete(states, ...policy, "whenScaled")
      ? ["its volume claims are newly deleted when it is scaled down"]
      : []),
  ];
}

function becomesDelete({ before, after }: States, ...path: readonly string[]): boolean {
  return field(after, ...path) === "Delete" && field(before, ...path) !== "Delete";
}

function describeMounts(ref: ObjectRef, states: States): string[] {
  if (!hasPods(ref)) return [];
  const claimsIn = (spec: unknown) =>
    listIn(spec, "volumes").map((volume) => field(volume, "persistentVolumeClaim", "claimName"));
  const { before, after } = podsOf(ref, states);
  const left = new Set(claimsIn(after));
  const isLost = claimsIn(before).some((claim) => typeof claim === "string" && !left.has(claim));
  return isLost ? ["its pods no longer use a volume claim that they used"] : [];
}
