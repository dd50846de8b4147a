import { expect, test } from "vitest";
import { samplePreview, sampleReport, samples } from "../../../../dev/comment-pictures/samples.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { describeReport } from "../../../../src/preview/summary.ts";
import type { Preview, PreviewObject, Report } from "../../../../src/model/report.ts";

const objects = samples["change"]?.previews[0]?.objects ?? [];
const lost: PreviewObject = { ref: { kind: "Service", name: "api" }, action: "deleted", risks: [] };
const prod = samplePreview("prod", { objects });
const staging = samplePreview("staging");
const legacy = samplePreview("legacy", { objects, suspended: true });
const old = samplePreview("old", { objects: [lost], suspended: true });

function told(previews: readonly Preview[], fields: Partial<Report> = {}) {
  const report = sampleReport(previews, fields);
  const [verdict, note] = renderComment(report, { maxLength: 65_536, marker: "<!-- -->" }).split("\n\n").slice(1);
  return {
    verdict,
    note: note?.startsWith("|") || note?.startsWith("- ") ? undefined : note,
    status: describeReport(report),
  };
}

const nothingHere = "Merging deploys nothing until the suspended deployments are resumed.";

test("a merge into suspended deployments only would change them, and deploys nothing", () => {
  expect(told([legacy, staging])).toEqual({
    verdict: "### Towline: merging would change 1 suspended deployment: 3 objects changed, 1 new",
    note: nothingHere,
    status: "would change 1 suspended deployment: 3 objects changed, 1 new",
  });
  expect(told([legacy, old])).toEqual({
    verdict:
      "### Towline: merging **would delete 1 object** in 1 deployment, and would change 2 suspended deployments: 3 changed, 1 new",
    note: nothingHere,
    status: "would change 2 suspended deployments: 3 objects changed, 1 new, 1 deleted",
  });
});

test("suspended deployments are reported below the verdict, which does not count them", () => {
  expect(told([prod, staging, old])).toEqual({
    verdict: "### Towline: merging changes 1 of 3 deployments: 3 objects changed, 1 new",
    note: "1 suspended deployment would change too (1 object deleted): merging deploys nothing there.",
    status: "changes 1 of 3 deployments: 3 objects changed, 1 new; 1 suspended deployment would change",
  });
});

test("suspended deployments without changes are not mentioned", () => {
  expect(told([prod, samplePreview("legacy", { suspended: true })])).toEqual({
    verdict: "### Towline: merging changes 1 of 2 deployments: 3 objects changed, 1 new",
    note: undefined,
    status: "changes 1 of 2 deployments: 3 objects changed, 1 new",
  });
});

test("after the merge, the comment says which affected deployments are not updated because they are suspended", () => {
  const note = (previews: readonly Preview[]) => told(previews, { state: "merged" }).note;

  expect(note([prod, staging])).toBe("Affected deployments are updated automatically.");
  expect(note([prod, legacy])).toBe("Affected deployments are updated automatically, except for 1 that is suspended.");
  expect(note([legacy, old])).toBe("All affected deployments are suspended: nothing is deployed.");
});

test("errors count, but a suspended deployment does not fail", () => {
  const errors = [{ message: "no such kind" }];

  expect(told([prod, samplePreview("legacy", { suspended: true, errors })]).status).toBe(
    "1 of 2 deployments has 1 error; changes 1 of 2 deployments: 3 objects changed, 1 new",
  );
  expect(told([samplePreview("prod", { errors }), legacy]).status).toBe(
    "would fail: 1 of 2 deployments has 1 error; would change 1 suspended deployment: 3 objects changed, 1 new",
  );
});
