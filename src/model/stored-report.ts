/**
 * The form in which a report is stored. A change of a library or of a base affects many deployments in the same way: if the report
 * is large, equal diffs are stored once, and so are objects that differ only in their namespace. A server that does not know
 * this form (`v: 2`) takes the report for missing, and previews the pull request again. Pure.
 */
import { z } from "zod";
import { type Preview, type PreviewObject, Report, type UncountedChanges, type UncountedKind } from "./report.ts";

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
  diffs: z.array(z.string()),
  /** Objects without their namespace and diff. */
  shapes: z.array(z.looseObject({ ref: z.looseObject({}), diffAt: at.optional() })),
  report: z.looseObject({ previews: z.array(PackedPreview) }),
});
type Reference = z.infer<typeof Reference>;
type Packed = z.infer<typeof Packed>;

/** The JSON text to store: in the form that every version knows, if it is small enough. */
export function storeReport(report: Report): string {
  const plain = JSON.stringify(report);
  return Buffer.byteLength(plain) <= maxStoredBytes ? plain : smaller(plain, JSON.stringify(pack(report)));
}

/** How many bytes a report takes: as a whole, and stored in its smallest form. */
export function sizesOf(report: Report): { readonly whole: number; readonly stored: number } {
  const whole = Buffer.byteLength(JSON.stringify(report));
  if (whole <= maxStoredBytes) return { whole, stored: whole };
  return { whole, stored: Math.min(whole, Buffer.byteLength(JSON.stringify(pack(report)))) };
}

function smaller(one: string, other: string): string {
  return other.length < one.length ? other : one;
}

/** `undefined` if it comes from another version or origin. */
export function readReport(stored: unknown): Report | undefined {
  const packed = Packed.safeParse(stored).data;
  return Report.safeParse(packed === undefined ? stored : unpack(packed)).data;
}

function pack(report: Report): Packed {
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
  return {
    v: 2,
    diffs: [...diffs.keys()],
    shapes: [...shapes.keys()].map((text) => JSON.parse(text) as Packed["shapes"][number]),
    report: { ...report, previews },
  };
}

/** What refers to nothing becomes an invalid object. */
function unpack({ diffs, shapes, report }: Packed): unknown {
  const toObject = ([shapeAt, namespace]: Reference) => {
    const { diffAt, ref, ...object } = shapes[shapeAt] ?? {};
    const diff = diffAt === undefined ? {} : { diff: diffs[diffAt] ?? null };
    return { ...object, ref: { ...ref, ...(namespace !== undefined && { namespace }) }, ...diff };
  };
  const list = (changes: z.infer<typeof Changes>) => changes && { ...changes, objects: changes.objects.map(toObject) };
  const previews = report.previews.map(({ objects, kept, noise, undeployed, drifted, ...preview }) => {
    const lists = { kept: list(kept), noise: list(noise), undeployed: list(undeployed), drifted: list(drifted) };
    return { ...preview, objects: objects.map(toObject), ...lists };
  });
  return { ...report, previews };
}
