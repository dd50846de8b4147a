/** Groups deployments in which merging has the same effect, so that it is described once. */
import { createHash } from "node:crypto";
import { nameOfPreview, type Preview, type PreviewObject, type Risk } from "../model/report.ts";
import { sortByOrder } from "../preview/order.ts";
import { isChanged } from "../preview/summary.ts";

export interface Group {
  readonly previews: readonly Preview[];
  /** The preview that represents the group. */
  readonly preview: Preview;
  readonly urgency: Urgency;
  /** Whether their objects are also in the same namespaces. */
  readonly sameNamespaces: boolean;
}

/** The urgency of a preview; smaller comes first. */
export type Urgency = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7;

/** Returns the groups, the most urgent first, then the largest, then in the order in which they would be deployed. */
export function groupPreviews(previews: readonly Preview[]): Group[] {
  const groups = Map.groupBy(sortByOrder(previews), (preview) =>
    isWhole(preview) ? contentId(preview) : nameOfPreview(preview),
  );
  return [...groups.values()]
    .flatMap((members) => {
      const [preview] = members;
      return preview === undefined ? [] : [toGroup(preview, members)];
    })
    .sort((a, b) => a.urgency - b.urgency || sizeOf(b) - sizeOf(a));
}

/** How many objects change in all its deployments. */
function sizeOf({ previews, preview }: Group): number {
  const { changed, new: added, deleted, orphan, errors } = preview.counts;
  return (changed + added + deleted + orphan + errors) * previews.length;
}

function toGroup(preview: Preview, previews: readonly Preview[]): Group {
  const namespaces = ({ objects }: Preview) => objects.map(({ ref }) => ref.namespace ?? "").join(" ");
  const first = namespaces(preview);
  const sameNamespaces = previews.every((other) => other === preview || namespaces(other) === first);
  return { previews, preview, urgency: urgencyOf(preview), sameNamespaces };
}

function urgencyOf(preview: Preview): Urgency {
  const { state, counts } = preview;
  if (state === "failed") return 0;
  if (counts.errors > 0 || hasRisk(preview, "immutable")) return 1;
  if (counts.deleted > 0 || hasRisk(preview, "deletion")) return 2;
  if (hasRisk(preview, "availability", "security")) return 3;
  if (hasRisk(preview, "far-reaching")) return 4;
  if (isChanged(preview)) return 5;
  if (state === "working") return 6;
  return 7;
}

/** Whether one of its objects has a risk of one of these kinds. */
export function hasRisk({ objects }: Preview, ...kinds: readonly Risk["kind"][]): boolean {
  return objects.some(({ risks }) => risks.some(({ kind }) => kinds.includes(kind)));
}

/** Whether the preview is complete, so that it can be compared with others. */
function isWhole({ objects, objectsLeftOut, concealed }: Preview): boolean {
  return concealed === undefined && objectsLeftOut === 0 && objects.every(isComplete);
}

/** Whether equal diffs of such objects mean equal changes. */
export function isComplete({ linesLeftOut = 0, partial }: PreviewObject): boolean {
  return linesLeftOut === 0 && partial === undefined;
}

/** A key that is equal for previews with the same content, in any namespace. */
function contentId(preview: Preview): string {
  const { state, suspended, counts, objects, errors, warnings, failure, failed, isolated, pruneWaits, encrypted } =
    preview;
  const { noise, unattributed } = preview;
  const what = objects.map(({ ref, action, risks, diff, secretKeys }) => {
    return [ref.group, ref.kind, ref.name, action, risks, diff, secretKeys];
  });
  const content = JSON.stringify([
    preview.kind,
    state,
    suspended,
    counts,
    what,
    errors,
    warnings,
    failure,
    failed,
    isolated,
    pruneWaits,
    encrypted,
    noise !== undefined,
    unattributed,
  ]);
  return createHash("sha256").update(content).digest("base64");
}
