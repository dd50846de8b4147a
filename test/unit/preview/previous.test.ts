import { expect, test } from "vitest";
import { earlierHeads, earlierPreviews, restarts } from "../../../src/preview/previous.ts";
import type { Report } from "../../../src/model/report.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const now = 1_000_000;
const there = { head: "h1", baseBranch: "main" };
const before = (overrides: Partial<Report> = {}) =>
  aReport({ head: "h1", base: "b1", restarts: 1, finishedAt: now - 1_000, ...overrides });

test("the last five earlier heads are kept, newest first, without the current one", () => {
  expect(earlierHeads(undefined, "h1")).toEqual([]);
  expect(earlierHeads(aReport({ head: "h1" }), "h1")).toEqual([]);
  expect(earlierHeads(aReport({ head: "h1", earlierHeads: ["h0"] }), "h2")).toEqual(["h1", "h0"]);
  expect(earlierHeads(aReport({ head: "h2", earlierHeads: ["h1", "h0"] }), "h1")).toEqual(["h2", "h0"]);
  const many = ["h5", "h4", "h3", "h2", "h1"];
  expect(earlierHeads(aReport({ head: "h6", earlierHeads: many }), "h7")).toEqual(["h6", "h5", "h4", "h3", "h2"]);
});

test("what the previews of earlier heads found is kept, the last one of each head, and not without end", () => {
  expect(earlierPreviews(undefined, "h1")).toBeUndefined();
  const counts = { new: 0, changed: 1, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
  const first = aReport({ head: "h1", previews: [aPreview({ counts })], finishedAt: 3_000 });
  expect(earlierPreviews(first, "h1")).toBeUndefined();
  const one = { head: "h1", verdict: "changes 1 deployment: 1 object changed", at: 3_000 };
  expect(earlierPreviews(first, "h2")).toEqual([one]);
  expect(earlierPreviews({ ...first, state: "closed" }, "h2")).toEqual([one]);

  const working = aReport({
    head: "h2",
    state: "working",
    finishedAt: undefined,
    startedAt: 5_000,
    earlierPreviews: [one],
  });
  expect(earlierPreviews(working, "h2")).toEqual([one]);
  const two = { head: "h2", verdict: "superseded before it was compared", at: 5_000 };
  expect(earlierPreviews(working, "h3")).toEqual([two, one]);
  // The branch was reset to where it had been.
  expect(earlierPreviews(working, "h1")).toEqual([two]);

  const many = Array.from({ length: 20 }, (_, at) => ({ head: `old${at}`, verdict: "", at }));
  const kept = earlierPreviews({ ...first, earlierPreviews: many }, "h2");
  expect(kept?.map(({ head }) => head)).toEqual(["h1", ...many.slice(0, 19).map(({ head }) => head)]);
});

test.each<[string, Report | undefined, string | undefined, number]>([
  ["there was none", undefined, "b2", 0],
  ["the base branch moved right after it", before(), "b2", 2],
  [
    "the base branch moved while it was made",
    before({ state: "working", finishedAt: undefined, startedAt: now }),
    "b2",
    2,
  ],
  ["the base branch moved long after it", before({ finishedAt: now - 120_000 }), "b2", 0],
  ["the head moved as well", before({ head: "h0" }), "b2", 0],
  ["it was retargeted", before({ baseBranch: "next" }), "b2", 0],
  ["nothing moved", before(), "b1", 0],
  ["it was broken off", before({ state: "working", finishedAt: undefined, startedAt: now }), "b1", 1],
  ["the base is not known yet", before(), undefined, 1],
  ["its base was not known", before({ base: undefined }), "b2", 0],
])("the restarts in a row are counted correctly when %s", (_when, previous, base, expected) => {
  expect(restarts(previous, there, base, now)).toBe(expected);
});
