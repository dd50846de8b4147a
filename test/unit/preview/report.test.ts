import { expect, test } from "vitest";
import { samplePreview, sampleReport } from "../../../dev/comment-pictures/samples.ts";
import { Report, riskKinds } from "../../../src/model/report.ts";

const reportWith = (kind: string): unknown => {
  const object = { ref: { kind: "Deployment", name: "web" }, action: "changed", risks: [{ kind, text: "a reason" }] };
  const { objects, ...preview } = samplePreview("prod");
  return JSON.parse(JSON.stringify(sampleReport([{ ...preview, objects: [...objects, object as never] }])));
};

const risksIn = (stored: unknown) => Report.parse(stored).previews[0]?.objects[0]?.risks;

test.each(riskKinds)("a stored risk of the kind %s is read as it was written", (kind) => {
  expect(risksIn(reportWith(kind))).toEqual([{ kind, text: "a reason" }]);
});

test("a risk of a kind that only a newer server knows keeps its text, and the report stays readable", () => {
  expect(risksIn(reportWith("cost"))).toEqual([{ kind: "far-reaching", text: "a reason" }]);
});
