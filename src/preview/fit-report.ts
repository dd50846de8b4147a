/** Keeps a report small enough to be stored and sent. Pure. Everything omitted is mentioned, or shows in the counts. */
import { mapUncounted, type Preview, type PreviewObject, type Report, type Risk } from "../model/report.ts";
import { maxReportBytes, maxStoredBytes, sizesOf } from "../model/stored-report.ts";
import { countUncounted } from "./summary.ts";
import { cut } from "./visible-text.ts";

const shortText = 200;
const maxPaths = 500;

/**
 * First what is not counted is removed, and the objects of child deployments, then the largest diffs, then texts
 * are cut, then the least important objects and messages are removed. Counts and names, which users need most, are kept
 * the longest. `maxBytes`: as it is stored.
 */
export function fitReport(report: Report, maxBytes = maxStoredBytes): Report {
  if (excessOf(report, maxBytes) <= 0) return report;
  const previews = report.previews.map(copyLists);
  const children = report.children?.previews.map(({ preview }) => copyLists(preview)) ?? [];
  const obstacle = cutObstacle(report.obstacle);
  const fitted = (): Report => ({ ...report, ...withChildren(report, children), previews, obstacle });
  const steps: ((excess: Excess) => void)[] = [
    (excess) => leaveOutUncounted(children, excess),
    (excess) => leaveOutUncounted(previews, excess),
    (excess) => leaveOutDiffs(children, excess),
    (excess) => leaveOutLast(children, "objects", excess),
    (excess) => leaveOutDiffs(previews, excess),
    (excess) => cutTexts(previews, excess),
    (excess) => leaveOutLast(previews, "objects", excess),
    (excess) => leaveOutLast(previews, "warnings", excess),
    (excess) => leaveOutLast(previews, "errors", excess),
  ];
  for (const step of steps) {
    // What is stored once frees its space only with the last one that refers to it: each round estimates, then counts.
    for (let before = Infinity; ;) {
      const bytes = excessOf(fitted(), maxBytes);
      if (bytes <= 0) return fitted();
      if (bytes >= before) break;
      step({ bytes });
      before = bytes;
    }
  }
  return fitted();
}

function copyLists(preview: Preview): Preview {
  const { objects, errors, warnings } = preview;
  return { ...preview, objects: [...objects], errors: [...errors], warnings: [...warnings] };
}

function withChildren({ children }: Report, previews: readonly Preview[]): Pick<Report, "children"> {
  if (children === undefined) return {};
  const fitted = children.previews.map((child, at) => ({ ...child, preview: previews[at] ?? child.preview }));
  return { children: { ...children, previews: fitted } };
}

interface Excess {
  bytes: number;
}

/** By how many bytes the report is too large to be stored or to be sent. */
function excessOf(report: Report, maxBytes: number): number {
  const { whole, stored } = sizesOf(report);
  return Math.max(stored - maxBytes, whole - maxReportBytes);
}

/** Only their number is kept. */
function leaveOutUncounted(previews: Preview[], excess: Excess): void {
  for (const [at, preview] of previews.entries()) {
    if (excess.bytes <= 0) return;
    const numbers = mapUncounted(preview, (changes) => ({ objects: [], objectsLeftOut: countUncounted(changes) }));
    replace(previews, at, { ...preview, ...numbers }, excess);
  }
}

/** Equal ones together: they are stored once. */
function leaveOutDiffs(previews: readonly Preview[], excess: Excess): void {
  const all = previews.flatMap(({ objects }) =>
    objects.flatMap(({ diff }, at) => (diff === undefined ? [] : [{ diff, objects, at }])),
  );
  const diffs = [...Map.groupBy(all, ({ diff }) => diff)].map(([diff, places]) => ({ places, bytes: bytesOf(diff) }));
  for (const { places, bytes } of diffs.sort((a, b) => b.bytes - a.bytes)) {
    if (excess.bytes <= 0) return;
    for (const { objects, at } of places) {
      const { diff = "", ...object } = objects[at] as PreviewObject;
      const lines = diff.replace(/\n$/, "").split("\n").length;
      objects[at] = { ...object, linesLeftOut: (object.linesLeftOut ?? 0) + lines, partial: true };
    }
    excess.bytes -= bytes;
  }
}

function cutTexts(previews: Preview[], excess: Excess): void {
  for (const [at, preview] of previews.entries()) {
    if (excess.bytes <= 0) return;
    const cutAll = (messages: Preview["errors"]) => messages.map((one) => ({ ...one, message: shorten(one.message) }));
    const { failure, concealed, unattributed, objects, errors, warnings } = preview;
    const shorter = {
      ...preview,
      objects: objects.map((object) => ({ ...object, risks: object.risks.map(cutRisk) })),
      errors: cutAll(errors),
      warnings: cutAll(warnings),
      ...(failure !== undefined && { failure: shorten(failure) }),
      ...(concealed !== undefined && { concealed: shorten(concealed) }),
      ...(unattributed !== undefined && { unattributed: shorten(unattributed) }),
    };
    replace(previews, at, shorter, excess);
  }
}

/** Always removes from the preview that has the most left, so that no preview loses everything in favor of another. */
function leaveOutLast(previews: readonly Preview[], list: "objects" | "errors" | "warnings", excess: Excess): void {
  while (excess.bytes > 0) {
    const longest = previews.toSorted((a, b) => b[list].length - a[list].length)[0];
    if (longest === undefined || longest[list].length === 0) return;
    // A tenth at a time: this stays fast when tens of thousands have to be removed.
    const gone = longest[list].splice(-Math.ceil(longest[list].length / 10));
    excess.bytes -= bytesOf(gone) - 2;
    if (list === "objects") longest.objectsLeftOut += gone.length;
  }
}

function cutObstacle(obstacle: Report["obstacle"]): Report["obstacle"] {
  if (obstacle?.kind === "failed") return { ...obstacle, message: shorten(obstacle.message) };
  if (obstacle?.kind !== "conflict") return obstacle;
  const paths = obstacle.paths.slice(0, maxPaths).map(shorten);
  const more = obstacle.paths.length - paths.length;
  return { ...obstacle, paths: more === 0 ? paths : [...paths, `and ${more} more`] };
}

function replace<T>(list: T[], at: number, next: T, excess: Excess): void {
  excess.bytes -= bytesOf(list[at]) - bytesOf(next);
  list[at] = next;
}

function cutRisk(risk: Risk): Risk {
  return { ...risk, text: shorten(risk.text) };
}

function shorten(text: string): string {
  const shown = cut(text, shortText);
  return shown === text ? text : `${shown}…`;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
