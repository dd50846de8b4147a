import fc from "fast-check";
import { expect, test } from "vitest";
import { around } from "../../../src/kit/around.ts";
import { fitReport, fitsReports } from "../../../src/preview/fit-report.ts";
import { type PreviewObject, Report } from "../../../src/model/report.ts";
import { latestResult } from "../../../src/preview/previous.ts";
import { maxReportBytes, readReport, sizesOf, storeReport } from "../../../src/model/stored-report.ts";
import { aPreview, aReport, fakeReports } from "../../support/fake-reports.ts";

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

test("whatever saves a report, what is stored fits", async () => {
  const stored = fakeReports();
  const texts = Array.from({ length: 10 }, (_, i) => linesOf(10_000).replaceAll("line", `line of ${i}`));
  const report = aReport({ previews: [aPreview({ objects: texts.map((text, i) => anObject(`${i}`, text)) })] });
  await around(stored, fitsReports).save(report);
  expect(await stored.find(report.pullRequest)).toEqual(fitReport(report));
  expect(fitReport(report)).not.toEqual(report);
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

const longText = fc.integer({ min: 0, max: 300_000 }).map((length) => "é".repeat(length));
const longChildText = fc.integer({ min: 0, max: 30_000 }).map((length) => "é".repeat(length));
const hostileChildren = fc.record({
  previews: fc.array(
    longChildText.map((text) => ({
      parent: { namespace: "shop", name: "root" },
      action: "new" as const,
      unread: [],
      preview: aPreview({
        objects: [anObject("child", text), { ...anObject("other"), risks: [{ kind: "deletion" as const, text }] }],
        errors: [{ ref: { kind: text, name: text }, message: text }],
        drifted: { objects: [anObject(text)], objectsLeftOut: 0 },
        failure: text,
        encrypted: { files: 1, changed: [text] },
      }),
    })),
    { maxLength: 3 },
  ),
  unshown: fc.array(
    longChildText.map((reason) => ({ parent: { namespace: "shop", name: "root" }, deployment: "shop/child", reason })),
    { maxLength: 10 },
  ),
  beyond: fc.nat(5),
});

test("whatever the children of deployments contain, the report fits, and the deployments lose nothing to them", () => {
  const previews = Array.from({ length: 5 }, (_, at) =>
    aPreview({ objects: [anObject(`o${at}`, `${linesOf(700)}${at}`)], errors: [{ message: "x".repeat(1_000) }] }),
  );
  fc.assert(
    fc.property(hostileChildren, (children) => {
      const fitted = fitReport(aReport({ previews, children }), 60_000);
      expect(bytesOf(fitted)).toBeLessThanOrEqual(60_000);
      expect(fitted.previews).toEqual(previews);
      const { previews: shown, unshown, beyond } = fitted.children!;
      const all = children.previews.length + children.unshown.length + children.beyond;
      expect(shown.length + unshown.length + beyond).toBe(all);
    }),
    { numRuns: 15 },
  );
});

test("any report can be stored, whatever is long in it, and one without its contents does not succeed", () => {
  const frame = fc.record({
    author: longText,
    unshown: fc.array(
      longText.map((reason) => ({ deployment: "shop/app", reason })),
      { maxLength: 10 },
    ),
    earlierPreviews: fc.array(
      longText.map((verdict) => ({ head: "h", verdict, at: 0 })),
      { maxLength: 5 },
    ),
    obstacle: fc.option(
      longText.map((why) => ({ kind: "fork" as const, why })),
      { nil: undefined },
    ),
    rollout: fc.array(
      longText.map((text) => ({ deployment: "shop/app", steps: [{ state: "failure" as const, text, at: 0 }] })),
      { maxLength: 3 },
    ),
  });
  const target = longText.map((text) => aPreview({ state: "failed", target: text }));
  fc.assert(
    fc.property(frame, fc.array(target, { maxLength: 4 }), (more, previews) => {
      const fitted = fitReport(aReport({ ...more, previews }));
      expect(bytesOf(fitted)).toBeLessThanOrEqual(900_000);
      if (fitted.previews.length > 0) expect(fitted.previews).toHaveLength(previews.length);
      else if (previews.length > 0) expect(fitted.obstacle).toBeDefined();
    }),
    { numRuns: 15 },
  );
});

const textOf = (report: Report) => JSON.parse(storeReport(report).text) as Report;
const wholeOf = (report: Report) => JSON.parse(storeReport(report).whole ?? "null") as { v: number; diffs: string[] };

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
  expect(Buffer.byteLength(storeReport(report).whole ?? "")).toBeLessThan(200_000);
  expect(wholeOf(report).diffs).toHaveLength(21);
  expect(readReport(storeReport(report))).toEqual(report);
});

test("what was found last is stored as compactly, and is the first to go if there is no room for both", () => {
  const working = (of: Report) =>
    aReport({ state: "working", previews: [aPreview({ state: "working" })], latest: latestResult(of, "cluster") });
  const report = working(aWideReport(200));
  expect(fitReport(report)).toBe(report);
  expect(Buffer.byteLength(storeReport(report).whole ?? "")).toBeLessThan(200_000);
  expect(readReport(storeReport(report))).toEqual(JSON.parse(JSON.stringify(report)));
  expect(textOf(report)).toEqual({ ...textOf(report), latest: undefined });
  const large = working(aWideReport(200, 150));
  expect(fitReport(large)).toEqual({ ...large, latest: undefined });
});

test("a report that is small enough is stored once", () => {
  const report = aWideReport(2);
  expect(storeReport(report).whole).toBeUndefined();
  expect(textOf(report)).toEqual(report);
  expect(readReport(storeReport(report))).toEqual(report);
});

test.each([
  ["the same objects without their diffs", 200, 20, 0],
  ["the number of its objects", 700, 0, 20],
])("of a large report, servers of the previous version read %s", (_, deployments, objects, objectsLeftOut) => {
  const report = aWideReport(deployments, 2);
  const text = textOf(report);
  expect(Buffer.byteLength(JSON.stringify(text))).toBeLessThanOrEqual(600_000);
  expect(Report.parse(text).previews.map((one) => [one.objects.length, one.objectsLeftOut])).toEqual(
    report.previews.map(() => [objects, objectsLeftOut]),
  );
  expect(text.previews.map(({ counts }) => counts)).toEqual(report.previews.map(({ counts }) => counts));
});

test("a whole report is read only beside the text that it was stored with", () => {
  const report = aWideReport(200);
  const { text, whole } = storeReport(report);
  const closed = { ...textOf(report), state: "closed" as const };
  expect(readReport({ text: JSON.stringify(closed), whole })).toEqual(closed);
  expect(readReport({ text })).toEqual(textOf(report));
});

test("a report that servers and browsers cannot hold is shortened, however little space its diffs take", () => {
  const report = aWideReport(200, 150);
  const fitted = fitReport(report);
  expect(Buffer.byteLength(JSON.stringify(fitted))).toBeLessThanOrEqual(maxReportBytes);
  expect(fitted.previews.map(({ objects }) => objects.length)).toEqual(report.previews.map(() => 20));
});

test("only so many diffs are omitted as servers and browsers cannot hold, although each is stored once", () => {
  const fitted = fitReport(aWideReport(200, 150));
  const withDiff = fitted.previews.flatMap(({ objects }) => objects.filter(({ diff }) => diff !== undefined));
  expect(withDiff.length).toBeGreaterThan(2_000);
});

test.each<[string, (packed: ReturnType<typeof wholeOf>) => unknown]>([
  ["another version", (packed) => ({ ...packed, v: 3 })],
  ["missing diffs", (packed) => ({ ...packed, diffs: [] })],
  ["missing objects", (packed) => ({ ...packed, shapes: [] })],
  ["no report", ({ v, diffs }) => ({ v, diffs, shapes: [] })],
])("instead of a whole report with %s, the shortened one is read", (_, change) => {
  const report = aWideReport(200);
  const whole = JSON.stringify(change(wholeOf(report)));
  expect(readReport({ ...storeReport(report), whole })).toEqual(textOf(report));
  expect(readReport({ text: whole })).toBeUndefined();
});
