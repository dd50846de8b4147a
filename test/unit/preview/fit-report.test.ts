import fc from "fast-check";
import { expect, test } from "vitest";
import { fitReport } from "../../../src/preview/fit-report.ts";
import { type PreviewObject, Report } from "../../../src/model/report.ts";
import { maxReportBytes, readReport, sizesOf, storeReport } from "../../../src/model/stored-report.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const bytesOf = (report: Report) => sizesOf(report).stored;
const linesOf = (count: number) => Array.from({ length: count }, (_, i) => `+line ${i}\n`).join("");

function anObject(name: string, diff?: string): PreviewObject {
  const object = { ref: { kind: "ConfigMap", name, namespace: "shop" }, action: "changed" as const, risks: [] };
  return diff === undefined ? object : { ...object, diff };
}

test("a report that is small enough stays as it is", () => {
  const report = aReport({ previews: [aPreview({ objects: [anObject("a", linesOf(100))] })] });
  expect(fitReport(report)).toBe(report);
});

test("the largest diffs are omitted first, and their lines are counted", () => {
  const objects = [anObject("small", linesOf(3)), anObject("large", linesOf(1_000)), anObject("middle", linesOf(100))];
  objects[1] = { ...objects[1]!, linesLeftOut: 7 };
  const report = aReport({ previews: [aPreview({ objects })] });
  const [preview] = fitReport(report, 3_000).previews;
  expect(preview?.objects).toEqual([
    objects[0],
    { ...anObject("large"), linesLeftOut: 1_007, partial: true },
    objects[2],
  ]);
  expect(preview?.objectsLeftOut).toBe(0);
  expect(report.previews[0]?.objects[1]?.diff).toBeDefined();
});

test("what is not the pull request's is removed before anything else, except for its number", () => {
  const own = anObject("own", linesOf(100));
  const shared = { objects: [anObject("a", linesOf(1_000)), anObject("b")], objectsLeftOut: 3 };
  const report = aReport({ previews: [aPreview({ objects: [own], drifted: shared, undeployed: shared })] });
  const [preview] = fitReport(report, 3_000).previews;
  expect(preview?.objects).toEqual([own]);
  expect(preview?.drifted).toEqual({ objects: [], objectsLeftOut: 5 });
  expect(preview?.undeployed).toEqual({ objects: [], objectsLeftOut: 5 });
});

test("the texts of risks are cut before an object is omitted", () => {
  const long = { ...anObject("long"), risks: [{ kind: "immutable" as const, text: "x".repeat(10_000) }] };
  const [preview] = fitReport(aReport({ previews: [aPreview({ objects: [long, anObject("last")] })] }), 3_000).previews;

  expect(preview?.objects.map(({ ref }) => ref.name)).toEqual(["long", "last"]);
  expect(preview?.objects[0]?.risks[0]?.text).toMatch(/^x{200}…$/);
});

test("of tens of thousands of objects the last ones are omitted, and counted", () => {
  const objects = Array.from({ length: 30_000 }, (_, i) => anObject(`o${i}`));
  const few = aPreview({ objects: objects.slice(0, 10) });
  const fitted = fitReport(aReport({ previews: [aPreview({ objects, objectsLeftOut: 5 }), few] }));
  const [preview, other] = fitted.previews;
  expect(bytesOf(fitted)).toBeLessThanOrEqual(600_000);
  expect(bytesOf(fitted)).toBeGreaterThan(500_000);
  expect(preview!.objects).toEqual(objects.slice(0, preview!.objects.length));
  expect(preview!.objectsLeftOut).toBe(30_005 - preview!.objects.length);
  expect(other).toEqual(few);
});

test("a thousand deployments with the same long error are all kept", () => {
  const failure = "Error: ".padEnd(4_000, "x");
  const errors = Array.from({ length: 3 }, () => ({ message: failure }));
  const previews = Array.from({ length: 1_000 }, () => aPreview({ state: "failed", failure, errors }));
  const fitted = fitReport(aReport({ previews }));
  expect(bytesOf(fitted)).toBeLessThanOrEqual(700_000);
  expect(fitted.previews).toHaveLength(1_000);
  expect(fitted.previews[0]?.failure).toMatch(/^Error: x+…$/);
});

test("a conflict in thousands of files names some of them and counts the others", () => {
  const paths = Array.from({ length: 10_000 }, (_, i) => `${"deep/".repeat(40)}${i}.yaml`);
  const { obstacle } = fitReport(aReport({ previews: [], obstacle: { kind: "conflict", paths } }));
  expect(obstacle).toMatchObject({ kind: "conflict" });
  const named = obstacle?.kind === "conflict" ? obstacle.paths : [];
  expect(named).toHaveLength(501);
  expect(named.at(-1)).toBe("and 9500 more");
});

test("any report can be shortened to fit, stays valid, and counts everything that it omits", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 300 });
  const message = fc.record({ message: text });
  const preview = fc.record({
    objects: fc.array(fc.record({ name: text, diff: fc.option(text, { nil: undefined }) }), { maxLength: 30 }),
    errors: fc.array(message, { maxLength: 5 }),
    warnings: fc.array(message, { maxLength: 5 }),
    failure: fc.option(text, { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(preview, { maxLength: 5 }), fc.integer({ min: 4_000, max: 20_000 }), (all, maxBytes) => {
      const previews = all.map(({ objects, ...rest }) =>
        aPreview({ ...rest, objects: objects.map(({ name, diff }) => anObject(name, diff)) }),
      );
      const fitted = fitReport(aReport({ previews }), maxBytes);
      expect(bytesOf(fitted)).toBeLessThanOrEqual(maxBytes + 2_000); // the frame of the report cannot be omitted
      expect(Report.parse(JSON.parse(JSON.stringify(fitted)))).toBeDefined();
      for (const [i, { objects, objectsLeftOut }] of fitted.previews.entries()) {
        expect(objects.length + objectsLeftOut).toBe(previews[i]!.objects.length);
        for (const [at, object] of objects.entries()) {
          if (object.diff === undefined && previews[i]!.objects[at]!.diff !== undefined) {
            expect(object.linesLeftOut).toBeGreaterThan(0);
          }
        }
      }
    }),
  );
});

const stored = (report: Report) => JSON.parse(storeReport(report)) as { v: number; diffs?: string[] };

/** One change of a base, in 20 objects of each of so many deployments. */
function aWideReport(deployments: number, lines = 12): Report {
  const previews = Array.from({ length: deployments }, (_, at) => {
    const namespace = `team-${at}`;
    const objects = Array.from({ length: 20 }, (__, i) => {
      const object = anObject(`object-${i}`, `${linesOf(lines)}+object ${i}`);
      return { ...object, ref: { ...object.ref, namespace } };
    });
    const counts = { new: 0, changed: 20, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
    const drifted = { objects: [anObject("drifted", linesOf(3))], objectsLeftOut: 0 };
    return aPreview({ deployment: { namespace, name: "app" }, counts, objects, drifted });
  });
  return aReport({ previews });
}

test("the same change in 200 deployments with 20 objects each is kept whole, because equal diffs are stored once", () => {
  const report = aWideReport(200);
  expect(Buffer.byteLength(JSON.stringify(report))).toBeGreaterThan(600_000);
  expect(fitReport(report)).toBe(report);
  expect(Buffer.byteLength(storeReport(report))).toBeLessThan(200_000);
  expect(stored(report)).toMatchObject({ v: 2, diffs: expect.objectContaining({ length: 21 }) as unknown });
  expect(readReport(stored(report))).toEqual(report);
});

test("a report that is small enough is stored in the form that older servers read", () => {
  const report = aWideReport(2);
  expect(stored(report)).toEqual(report);
  expect(readReport(stored(report))).toEqual(report);
});

test("a report that servers and browsers cannot hold is shortened, however little space its diffs take", () => {
  const report = aWideReport(200, 150);
  const fitted = fitReport(report);
  expect(Buffer.byteLength(JSON.stringify(fitted))).toBeLessThanOrEqual(maxReportBytes);
  expect(fitted.previews.map(({ objects }) => objects.length)).toEqual(report.previews.map(() => 20));
});

test.each<[string, (packed: ReturnType<typeof stored>) => unknown]>([
  ["another version", (packed) => ({ ...packed, v: 3 })],
  ["missing diffs", (packed) => ({ ...packed, diffs: [] })],
  ["missing objects", (packed) => ({ ...packed, shapes: [] })],
  ["no report", ({ v, diffs }) => ({ v, diffs, shapes: [] })],
])("a stored report with %s is refused", (_, change) => {
  expect(readReport(change(stored(aWideReport(200))))).toBeUndefined();
});
