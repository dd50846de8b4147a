/**
 * Changes after which a workload may serve worse or not at all: no pods, an older or a moving image, no probes, no
 * resources. What other changes of its pods mean can only be told by those who know the program.
 */
import type { ObjectRef } from "../../model.ts";
import { field, isRecord } from "../../kit/json.ts";
import { entriesIn, idOf } from "./fields.ts";
import { isDowngrade, startsToMove } from "./images.ts";
import { countOf, hasPods, isScalable, type Pair, podsOf } from "./pods.ts";
import type { States } from "./states.ts";

/** What the change of a workload means for its availability, in words. */
export function describeWorkload(ref: ObjectRef, states: States): string[] {
  if (!hasPods(ref)) return [];
  const { containers } = podsOf(ref, states);
  const count = (concerns: (pair: Pair) => boolean) => containers.filter(concerns).length;
  return [
    ...describeScale(ref, states),
    ...(isSuspended(ref, states) ? ["no jobs are scheduled until it is resumed"] : []),
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
    ...countOf(count(losesRequest), "loses a request for CPU or memory", "lose requests for CPU or memory"),
    ...countOf(count(losesLimit), "loses its memory limit", "lose their memory limits"),
  ];
}

/** A new workload without pods replaces nothing. */
function describeScale(ref: ObjectRef, { before, after }: States): string[] {
  if (!isScalable(ref) || before === undefined) return [];
  const [was, is] = [before, after].map((state) => field(state, "spec", "replicas"));
  if (is === 0 && was !== 0) return ["it is scaled to zero: no pod is left running"];
  return is === 1 && typeof was === "number" && was > 1 ? ["it is scaled down to one pod"] : [];
}

function isSuspended(ref: ObjectRef, { before, after }: States): boolean {
  if (idOf(ref) !== "batch/CronJob" || before === undefined) return false;
  return field(after, "spec", "suspend") === true && field(before, "spec", "suspend") !== true;
}

const probes = ["readiness", "liveness", "startup"] as const;

function loses({ before, after }: Pair, name: string): boolean {
  return isRecord(field(before, name)) && !isRecord(field(after, name));
}

/** Where a limit is left, the API server uses it as the request. */
function losesRequest({ before, after }: Pair): boolean {
  const [had, has] = [before, after].map((container) => entriesIn(container, "resources", "requests"));
  const limits = entriesIn(after, "resources", "limits");
  return ["cpu", "memory"].some((name) => had?.has(name) && !has?.has(name) && !limits.has(name));
}

/** Many recommend to set no limit for CPU: without one, a container only uses what others do not need. */
function losesLimit({ before, after }: Pair): boolean {
  const [had, has] = [before, after].map((container) => entriesIn(container, "resources", "limits").has("memory"));
  return had === true && has === false;
}
