/**
 * The form in which a report is stored. A change of a library or of a base affects many deployments in the same way: if the report
 * is large, equal diffs are stored once, and so are objects that differ only in their namespace. A server of another version may
 * not know that form: during an update it would take the report for missing. So there is always a form that every version
 * knows, shortened if necessary, and the whole report is stored beside it. Pure.
 */
import { hash } from "node:crypto";
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import {
  countUncounted,
  mapUncounted,
  type Preview,
  type PreviewObject,
  Report,
  type UncountedChanges,
  type UncountedKind,
  withoutDiff,
} from "./report.ts";

/** Redis stores a few thousand reports. */
export const maxStoredBytes = 600_000;
/** Of the whole report, which servers and browsers hold in memory. */
export const maxReportBytes = 6_000_000;

const at = z.int().nonnegative();
/** Which shape, and the namespace if the object has one. */
const Reference = z.union([z.tuple([at]), z.tuple([at, z.string()])]);
const Changes = z.looseObject({ objects: z.array(Reference) }).optional();
const PackedPreview = z.looseObject({
  objects: z.array(Reference),
  ...({ kept: Changes, noise: Changes, undeployed: Changes, drifted: Changes } satisfies Record<
    UncountedKind,
    typeof Changes
  >),
});
const Packed = z.object({
  v: z.literal(2),
  /** The digest of the text beside which it is stored. */
  of: z.string(),
  diffs: z.array(z.string()),
  /** Objects without their namespace and diff. */
  shapes: z.array(z.looseObject({ ref: z.looseObject({}), diffAt: at.optional() })),
  report: z.looseObject({
    previews: z.array(PackedPreview),
    latest: z.looseObject({ previews: z.array(PackedPreview) }).optional(),
  }),
});
type Reference = z.infer<typeof Reference>;
type Packed = z.infer<typeof Packed>;

/** JSON texts. */
export interface StoredReport {
  /** In the form that every version knows. */
  readonly text: string;
  /** All of it, if `text` is shortened. */
  readonly whole?: string | undefined;
}

export function storeReport(report: Report): StoredReport {
  const plain = JSON.stringify(report);
  if (Buffer.byteLength(plain) <= maxStoredBytes) return { text: plain };
  const packed = pack(report);
  if (JSON.stringify(packed).length >= plain.length) return { text: plain };
  const short = { ...report, latest: undefined };
  const withoutDiffs = JSON.stringify(shorten(short, withoutDiff));
  const isSmall = Buffer.byteLength(withoutDiffs) <= maxStoredBytes;
  // Without any object it is hardly larger than the packed one.
  const text = isSmall ? withoutDiffs : JSON.stringify(shorten(short, () => undefined));
  return { text, whole: JSON.stringify({ ...packed, of: digestOf(text) }) };
}

/**
 * `undefined` if it comes from another version or origin. `whole` is ignored if it belongs to another text: a server of
 * another version may have saved a newer report, and only that.
 */
export function readReport({ text, whole }: StoredReport): Report | undefined {
  const packed = whole === undefined ? undefined : Packed.safeParse(parseJson(whole)).data;
  const isCurrent = packed !== undefined && packed.of === digestOf(text);
  return (isCurrent ? Report.safeParse(unpack(packed)).data : undefined) ?? Report.safeParse(parseJson(text)).data;
}

/** Everything that it omits is counted. Returning `undefined` omits the object. */
function shorten(report: Report, shortenObject: (object: PreviewObject) => PreviewObject | undefined): Report {
  const previews = report.previews.map((preview) => {
    const objects = preview.objects.flatMap((object) => shortenObject(object) ?? []);
    const objectsLeftOut = preview.objectsLeftOut + preview.objects.length - objects.length;
    const uncounted = mapUncounted(preview, (changes) => ({ objects: [], objectsLeftOut: countUncounted(changes) }));
    return { ...preview, ...uncounted, objects, objectsLeftOut };
  });
  return { ...report, previews };
}

function digestOf(text: string): string {
  return hash("sha256", text);
}

/** How many bytes a report takes: as a whole, and stored in its smallest form. */
export function sizesOf(report: Report): { readonly whole: number; readonly stored: number } {
  const whole = Buffer.byteLength(JSON.stringify(report));
  if (whole <= maxStoredBytes) return { whole, stored: whole };
  return { whole, stored: Math.min(whole, Buffer.byteLength(JSON.stringify(pack(report)))) };
}

function pack(report: Report): Omit<Packed, "of"> {
  const diffs = new Map<string, number>();
  const shapes = new Map<string, number>();
  const indexOf = (table: Map<string, number>, text: string): number => {
    const known = table.get(text);
    if (known !== undefined) return known;
    table.set(text, table.size);
    return table.size - 1;
  };
  const toReference = ({ diff, ref: { namespace, ...ref }, ...object }: PreviewObject): Reference => {
    const shape = { ref, ...object, ...(diff !== undefined && { diffAt: indexOf(diffs, diff) }) };
    const shapeAt = indexOf(shapes, JSON.stringify(shape));
    return namespace === undefined ? [shapeAt] : [shapeAt, namespace];
  };
  const toPacked = ({ objects, kept, noise, undeployed, drifted, ...preview }: Preview) => {
    const list = (changes: UncountedChanges | undefined) =>
      changes && { ...changes, objects: changes.objects.map(toReference) };
    const lists = { kept: list(kept), noise: list(noise), undeployed: list(undeployed), drifted: list(drifted) };
    return { ...preview, objects: objects.map(toReference), ...lists };
  };
  const previews = report.previews.map(toPacked);
  const latest = report.latest && { ...report.latest, previews: report.latest.previews.map(toPacked) };
  return {
    v: 2,
    diffs: [...diffs.keys()],
    shapes: [...shapes.keys()].map((text) => JSON.parse(text) as Packed["shapes"][number]),
    report: { ...report, previews, latest },
  };
}

/** What refers to nothing becomes an invalid object. */
function unpack({ diffs, shapes, report }: Omit<Packed, "of">): unknown {
  const toObject = ([shapeAt, namespace]: Reference) => {
    const { diffAt, ref, ...object } = shapes[shapeAt] ?? {};
    const diff = diffAt === undefined ? {} : { diff: diffs[diffAt] ?? null };
    return { ...object, ref: { ...ref, ...(namespace !== undefined && { namespace }) }, ...diff };
  };
  const list = (changes: z.infer<typeof Changes>) => changes && { ...changes, objects: changes.objects.map(toObject) };
  const toPreview = ({ objects, kept, noise, undeployed, drifted, ...preview }: z.infer<typeof PackedPreview>) => {
    const lists = { kept: list(kept), noise: list(noise), undeployed: list(undeployed), drifted: list(drifted) };
    return { ...preview, objects: objects.map(toObject), ...lists };
  };
  const { previews, latest } = report;
  const shown = latest && { ...latest, previews: latest.previews.map(toPreview) };
  return { ...report, previews: previews.map(toPreview), ...(shown && { latest: shown }) };
}
