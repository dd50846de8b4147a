/**
 * Changes after which a workload may serve worse or not at all: no pods, an older or a moving image, no probes, no
 * resources. What other changes of its pods mean can only be told by those who know the program.
 */
import type { ObjectRef } from "../../model.ts";
import { entriesIn, field, idOf, isRecord } from "./fields.ts";
import { isDowngrade, startsToMove } from "./images.ts";
import { countOf, hasPods, type Pair, podsOf } from "./pods.ts";
import type { States } from "./states.ts";

const scalable = /^(?:apps\/(?:Deployment|StatefulSet|ReplicaSet)|\/ReplicationController)$/;

/** What the change of a workload means for its availability, in words. */
export function describeWorkload(ref: ObjectRef, states: States): string[] {
  if (!hasPods(ref)) return [];
  const { containers } = podsOf(ref, states);
  const count = (concerns: (pair: Pair) => boolean) => containers.filter(concerns).length;
  return [
    ...(isScaledToZero(ref, states) ? ["it is scaled to zero: no pod is left running"] : []),
    ...countOf(
      count(({ before, after }) => isDowngrade(field(before, "image"), field(after, "image"))),
      "goes back to an older version of its image",
      "go back to older versions of their images",
    ),
    ...countOf(
      count(({ before, after }) => startsToMove(field(before, "image"), field(after, "image"))),
      "has an image whose tag can move to another version",
      "have images whose tags can move to other versions",
    ),
    ...probes.flatMap((probe) =>
      countOf(
        count((pair) => loses(pair, `${probe}Probe`)),
        `loses its ${probe} probe`,
        `lose their ${probe} probes`,
      ),
    ),
    ...countOf(count(losesRequest), "loses a resource request", "lose resource requests"),
    ...countOf(count(losesLimit), "loses a resource limit", "lose resource limits"),
  ];
}

/** A new workload without pods replaces nothing. */
function isScaledToZero(ref: ObjectRef, { before, after }: States): boolean {
  const isZero = (state: unknown) => field(state, "spec", "replicas") === 0;
  return scalable.test(idOf(ref)) && before !== undefined && isZero(after) && !isZero(before);
}

const probes = ["readiness", "liveness", "startup"] as const;

function loses({ before, after }: Pair, name: string): boolean {
  return isRecord(field(before, name)) && !isRecord(field(after, name));
}

/** Where a limit is left, the API server uses it as the request. */
function losesRequest(pair: Pair): boolean {
  const limits = entriesIn(pair.after, "resources", "limits");
  return namesLost(pair, "requests").some((name) => !limits.has(name));
}

function losesLimit(pair: Pair): boolean {
  return namesLost(pair, "limits").length > 0;
}

function namesLost({ before, after }: Pair, part: "requests" | "limits"): string[] {
  const left = entriesIn(after, "resources", part);
  return [...entriesIn(before, "resources", part).keys()].filter((name) => !left.has(name));
}
