/** Keeps a report small enough to be stored and sent. Pure. Everything omitted is mentioned, or shows in the counts. */
import {
  countUncounted,
  mapUncounted,
  type Preview,
  type PreviewObject,
  type Report,
  type Risk,
  withoutDiff,
} from "../model/report.ts";
import type { Interceptor } from "../kit/around.ts";
import type { Reports } from "../ports.ts";
import { maxReportBytes, maxStoredBytes, sizesOf } from "../model/stored-report.ts";
import { cut } from "./visible-text.ts";

const shortText = 200;
const maxPaths = 500;
/** Of an estimate in one round: it is no more than an estimate. */
const mostCorrected = 10;

/** Of `maxBytes`: for child deployments in a report that is too large. What a branch writes into them takes less. */
const childrenShare = 1 / 10;
/** Of `maxBytes`: for names and counts of so many deployments that nothing else is left. Redis accepts still more. */
const tolerance = 1.5;

/** Wraps the store: whoever saves a report need not know how large it may be. */
export const fitsReports: Interceptor<Pick<Reports, "save">> = { save: (next, report) => next(fitReport(report)) };

/**
 * First what the comparison before it found is removed, then the contents of child deployments, then what is not counted, then
 * the largest diffs; then texts are cut; then the least important objects and messages are removed. Counts and names, which users need most, are kept the longest.
 * `maxBytes`: as it is stored. The result is at most half larger: a report that cannot be shortened to that fails.
 */
export function fitReport(report: Report, maxBytes = maxStoredBytes): Report {
  let excess = excessOf(report, maxBytes);
  if (!isOver(excess)) return report;
  if (report.latest !== undefined) return fitReport({ ...report, latest: undefined }, maxBytes);
  const previews = report.previews.map(copyLists);
  const children = report.children?.previews.map(({ preview }) => copyLists(preview)) ?? [];
  const frame = { ...report, ...cutFrame(report) };
  let areChildrenCounted = false;
  const fitted = (): Report => ({ ...frame, ...withChildren(frame, children, areChildrenCounted), previews });
  const steps: ((excess: Excess) => void)[] = [
    (excess) => leaveOutUncounted(children, excess),
    (excess) => leaveOutDiffs(children, excess),
    (excess) => leaveOutLast(children, "objects", excess),
    (excess) => cutTexts(children, excess),
    (excess) => leaveOutLast(children, "warnings", excess),
    (excess) => leaveOutLast(children, "errors", excess),
    (excess) => {
      const bytes = bytesOf(withChildren(frame, children, areChildrenCounted));
      if (bytes <= maxBytes * childrenShare) return;
      areChildrenCounted = true;
      subtract(excess, bytes);
    },
    (excess) => leaveOutUncounted(previews, excess),
    (excess) => leaveOutDiffs(previews, excess),
    (excess) => cutTexts(previews, excess),
    (excess) => leaveOutLast(previews, "objects", excess),
    (excess) => leaveOutLast(previews, "warnings", excess),
    (excess) => leaveOutLast(previews, "errors", excess),
  ];
  const count = () => (excess = excessOf(fitted(), maxBytes));
  count();
  for (const step of steps) removeExcess(step, excess, count);
  return excess.stored <= maxBytes * (tolerance - 1) ? fitted() : withoutContents(frame, maxBytes);
}

/**
 * What is stored once frees its space only with the last one that refers to it: each round estimates, then counts. Counting
 * takes long. So each round corrects the estimate by what the last one freed, and from the third on removes twice as much.
 */
function removeExcess(step: (excess: Excess) => void, excess: Excess, count: () => Excess): void {
  let now = excess;
  for (let round = 1, factor = 1; isOver(now); round++) {
    const before = now;
    const wanted = { stored: before.stored * factor, whole: before.whole };
    const left = { ...wanted };
    step(left);
    if (left.stored === wanted.stored && left.whole === wanted.whole) return; // nothing is left to remove
    now = count();
    const freed = before.stored - now.stored;
    if (freed <= 0 && now.whole >= before.whole) return;
    const perFreed = (wanted.stored - left.stored) / Math.max(freed, 1);
    factor = Math.min(Math.max(perFreed, round < 3 ? 1 : 2 * factor), mostCorrected * factor);
  }
}

function copyLists(preview: Preview): Preview {
  const { objects, errors, warnings } = preview;
  return { ...preview, objects: [...objects], errors: [...errors], warnings: [...warnings] };
}

/** `areCounted`: only their number is kept. */
function withChildren(
  { children }: Report,
  previews: readonly Preview[],
  areCounted: boolean,
): Pick<Report, "children"> {
  if (children === undefined) return {};
  if (areCounted) {
    const beyond = children.previews.length + children.unshown.length + children.beyond;
    return { children: { previews: [], unshown: [], beyond } };
  }
  const shown = children.previews.map((child, at) => ({ ...child, preview: previews[at] ?? child.preview }));
  return { children: { ...children, previews: shown } };
}

/** By how many bytes a report is too large to be stored, and to be sent; negative if it is smaller. */
interface Excess {
  stored: number;
  whole: number;
}

function excessOf(report: Report, maxBytes: number): Excess {
  const { whole, stored } = sizesOf(report);
  return { stored: stored - maxBytes, whole: whole - maxReportBytes };
}

function isOver({ stored, whole }: Excess): boolean {
  return stored > 0 || whole > 0;
}

function subtract(excess: Excess, whole: number, stored = whole): void {
  excess.whole -= whole;
  excess.stored -= stored;
}

/** Only their number is kept. */
function leaveOutUncounted(previews: Preview[], excess: Excess): void {
  for (const [at, preview] of previews.entries()) {
    if (!isOver(excess)) return;
    const numbers = mapUncounted(preview, (changes) => ({ objects: [], objectsLeftOut: countUncounted(changes) }));
    replace(previews, at, { ...preview, ...numbers }, excess);
  }
}

/** Equal ones together: they are stored once, but each of them is sent. */
function leaveOutDiffs(previews: readonly Preview[], excess: Excess): void {
  const all = previews.flatMap(({ objects }) =>
    objects.flatMap(({ diff }, at) => (diff === undefined ? [] : [{ diff, objects, at }])),
  );
  const diffs = [...Map.groupBy(all, ({ diff }) => diff)].map(([diff, places]) => ({ places, bytes: bytesOf(diff) }));
  for (const { places, bytes } of diffs.sort((a, b) => b.bytes - a.bytes)) {
    if (!isOver(excess)) return;
    for (const { objects, at } of places) objects[at] = withoutDiff(objects[at] as PreviewObject);
    subtract(excess, bytes * places.length, bytes);
  }
}

function cutTexts(previews: Preview[], excess: Excess): void {
  for (const [at, preview] of previews.entries()) {
    if (!isOver(excess)) return;
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
  while (isOver(excess)) {
    const longest = previews.toSorted((a, b) => b[list].length - a[list].length)[0];
    if (longest === undefined || longest[list].length === 0) return;
    // A tenth at a time: this stays fast when tens of thousands have to be removed.
    const gone = longest[list].splice(-Math.ceil(longest[list].length / 10));
    subtract(excess, bytesOf(gone) - 2);
    if (list === "objects") longest.objectsLeftOut += gone.length;
  }
}

/** The texts of a report that belong to no preview. */
function cutFrame(report: Report): Partial<Report> {
  const { author, unshown, children, earlierPreviews, obstacle } = report;
  const cutReason = <T extends { reason: string }>(one: T): T => ({ ...one, reason: shorten(one.reason) });
  return {
    ...(author !== undefined && { author: shorten(author) }),
    ...(unshown && { unshown: unshown.map(cutReason) }),
    ...(children && { children: { ...children, unshown: children.unshown.map(cutReason) } }),
    ...(earlierPreviews && {
      earlierPreviews: earlierPreviews.map((one) => ({ ...one, verdict: shorten(one.verdict) })),
    }),
    ...(obstacle && { obstacle: cutObstacle(obstacle) }),
  };
}

/**
 * A report of which even the counts and names are too many. It fails: without some of its previews it could seem to
 * succeed, and without a report its comment would stay in progress.
 */
function withoutContents(report: Report, maxBytes: number): Report {
  const { unshown: _unshown, earlierPreviews: _earlier, children: _children, rollout, ...frame } = report;
  const message = `The preview is too large to be stored: ${report.previews.length} deployments are affected.`;
  const obstacle = report.obstacle ?? { kind: "failed" as const, message };
  const small: Report = { ...frame, obstacle, previews: [] };
  return bytesOf(rollout ?? []) <= maxBytes ? { ...small, ...(rollout && { rollout }) } : small;
}

function cutObstacle(obstacle: Report["obstacle"]): Report["obstacle"] {
  if (obstacle?.kind === "failed") return { ...obstacle, message: shorten(obstacle.message) };
  if (obstacle?.kind !== "conflict") return obstacle;
  const paths = obstacle.paths.slice(0, maxPaths).map(shorten);
  const more = obstacle.paths.length - paths.length;
  return { ...obstacle, paths: more === 0 ? paths : [...paths, `and ${more} more`] };
}

function replace<T>(list: T[], at: number, next: T, excess: Excess): void {
  subtract(excess, bytesOf(list[at]) - bytesOf(next));
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
