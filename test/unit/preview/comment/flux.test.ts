import { expect, test } from "vitest";
import { renderComment } from "../../../../src/comment/comment.ts";
import { toOpenReport } from "../../../../src/model/open-report.ts";
import { statusesOf } from "../../../../src/reporting/statuses.ts";
import { aPreview, aReport } from "../../../support/fake-reports.ts";
import { limitReport } from "../../../../src/web/sight.ts";
import { showReport } from "../../../../src/views/show-report.ts";

const counts = { new: 0, changed: 1, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
const ref = { kind: "ConfigMap", name: "a", namespace: "shop" };
const objects = [{ ref, action: "changed" as const, risks: [], diff: " data.a:\n-  1\n+  2" }];
const both = [aPreview({ counts, objects }), aPreview({ kind: "Kustomization", counts, objects })];

test("a Kustomization is never taken for the KluctlDeployment of the same name", () => {
  const report = aReport({ previews: both });

  const comment = renderComment(report, { maxLength: 60_000, marker: "" });
  expect(comment).toContain("`shop/prod`");
  expect(comment).toContain("`Kustomization shop/prod`");
  expect(comment.match(/applied by Flux/g)).toHaveLength(1);
  expect(comment).not.toContain("the same in");
  expect(statusesOf(report, "").map(({ context }) => context)).toEqual([
    "towline/shop/prod",
    "towline/kustomization/shop/prod",
    "towline",
  ]);
  expect(toOpenReport({ ...report, state: "done" }).shows).toEqual(["shop/prod", "Kustomization shop/prod"]);
});

test("users who see some namespaces do not see what Flux applies, which may be in any", () => {
  const shown = limitReport(showReport(aReport({ previews: both })), (namespace) => namespace.endsWith("shop"));
  expect(shown?.previews.map(({ deployment }) => deployment)).toEqual(["shop/prod"]);
});
