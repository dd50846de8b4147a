/** Keeps a report small enough to be stored and sent. Pure. Everything omitted is mentioned, or shows in the counts. */
import { mapUncounted, type Preview, type PreviewObject, type Report, type Risk } from "../model/report.ts";
import { countUncounted } from "./summary.ts";
import { cut } from "./visible-text.ts";

/** Redis stores a few thousand reports, and no comment can show this much. */
const maxReportBytes = 600_000;
const shortText = 200;
const maxPaths = 500;

/**
 * First what is not counted is removed, and the objects of deployments in deployments, then the diffs of the largest
 * objects, then texts are cut, then the least important objects and messages are removed. Counts and names, which users
 * need most, are kept the longest.
 */
export function fitReport(report: Report, maxBytes = maxReportBytes): Report {
  const excess = { bytes: bytesOf(report) - maxBytes };
  if (excess.bytes <= 0) return report;
  const previews = report.previews.map(copyLists);
  const children = report.children?.previews.map(({ preview }) => copyLists(preview)) ?? [];
  leaveOutUncounted(children, excess);
  leaveOutUncounted(previews, excess);
  leaveOutDiffs(children, excess);
  leaveOutLast(children, "objects", excess);
  leaveOutDiffs(previews, excess);
  cutTexts(previews, excess);
  leaveOutLast(previews, "objects", excess);
  leaveOutLast(previews, "warnings", excess);
  leaveOutLast(previews, "errors", excess);
  return { ...report, ...withChildren(report, children), previews, obstacle: cutObstacle(report.obstacle) };
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

/** Only their number is kept. */
function leaveOutUncounted(previews: Preview[], excess: Excess): void {
  for (const [at, preview] of previews.entries()) {
    if (excess.bytes <= 0) return;
    const numbers = mapUncounted(preview, (changes) => ({ objects: [], objectsLeftOut: countUncounted(changes) }));
    replace(previews, at, { ...preview, ...numbers }, excess);
  }
}

function leaveOutDiffs(previews: readonly Preview[], excess: Excess): void {
  const diffs = previews.flatMap(({ objects }) =>
    objects.flatMap((object, at) => (object.diff === undefined ? [] : [{ objects, at, bytes: bytesOf(object.diff) }])),
  );
  for (const { objects, at } of diffs.sort((a, b) => b.bytes - a.bytes)) {
    if (excess.bytes <= 0) return;
    const { diff = "", ...object } = objects[at] as PreviewObject;
    const lines = diff.replace(/\n$/, "").split("\n").length;
    replace(objects, at, { ...object, linesLeftOut: (object.linesLeftOut ?? 0) + lines, partial: true }, excess);
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
