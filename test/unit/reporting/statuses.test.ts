import { expect, test } from "vitest";
import type { Report } from "../../../src/model/report.ts";
import { statusesOf } from "../../../src/reporting/statuses.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

function linesOf(overrides: Partial<Report>) {
  return statusesOf(aReport(overrides), "https://git.example.com/c").map(({ context, state }) => [context, state]);
}

const counts = { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 };

test("the description is a short form of the comment's verdict", () => {
  const [line, sum] = statusesOf(
    aReport({ previews: [aPreview({ counts: { ...counts, changed: 5, deleted: 1 } })] }),
    "u",
  );
  expect(line).toEqual({
    context: "towline/shop/prod",
    state: "success",
    description: "5 changed, 1 deleted",
    url: "u",
  });
  expect(sum?.description).toBe("changes 1 deployment: 5 objects changed, 1 deleted");
});

test.each<[string, Partial<Report>, string[][]]>([
  [
    "while it is compared",
    { state: "working", previews: [aPreview({ state: "working" })] },
    [
      ["towline/shop/prod", "pending"],
      ["towline", "pending"],
    ],
  ],
  ["when no deployment is affected", { previews: [] }, [["towline", "success"]]],
  ["from a fork, which is no fault", { previews: [], obstacle: { kind: "fork" } }, [["towline", "success"]]],
  ["on no branch, which is none either", { previews: [], obstacle: { kind: "no-branch" } }, [["towline", "success"]]],
  ["in conflict", { previews: [], obstacle: { kind: "conflict", paths: ["a"] } }, [["towline", "failure"]]],
  ["that could not be read", { previews: [], obstacle: { kind: "failed", message: "no" } }, [["towline", "failure"]]],
  [
    "that cannot be rendered",
    { previews: [aPreview({ state: "failed", failure: "no such target" })] },
    [
      ["towline/shop/prod", "failure"],
      ["towline", "failure"],
    ],
  ],
  [
    "from a fork, that only the cluster is missing for",
    { previews: [aPreview({ state: "failed", failed: "run", isolated: true })] },
    [
      ["towline/shop/prod", "success"],
      ["towline", "success"],
    ],
  ],
  [
    "in a library, where a deployment that includes it cannot be compared",
    { previews: [aPreview({ state: "failed", failed: "run", includes: true })] },
    [
      ["towline/shop/prod", "success"],
      ["towline", "success"],
    ],
  ],
  [
    "in a library that breaks a deployment which includes it",
    { previews: [aPreview({ state: "failed", failed: "render", includes: true })] },
    [
      ["towline/shop/prod", "failure"],
      ["towline", "failure"],
    ],
  ],
  [
    "from a fork that breaks the project",
    { previews: [aPreview({ state: "failed", failed: "render", isolated: true })] },
    [
      ["towline/shop/prod", "failure"],
      ["towline", "failure"],
    ],
  ],
  [
    "with errors in some objects",
    { previews: [aPreview({ counts: { ...counts, errors: 1 } })] },
    [
      ["towline/shop/prod", "failure"],
      ["towline", "failure"],
    ],
  ],
  [
    "that was closed before it was known",
    { state: "closed", previews: [aPreview({ state: "working" })] },
    [
      ["towline/shop/prod", "canceled"],
      ["towline", "canceled"],
    ],
  ],
  [
    "that was merged",
    { state: "merged" },
    [
      ["towline/shop/prod", "success"],
      ["towline", "success"],
    ],
  ],
])("a pull request %s shows it in its statuses", (_, overrides, expected) => {
  expect(linesOf(overrides)).toEqual(expected);
});

test("for many deployments the failures and the summary are written", () => {
  const previews = Array.from({ length: 11 }, (_, i) =>
    aPreview({ deployment: { namespace: "shop", name: `d${i}` }, state: i === 10 ? "failed" : "done" }),
  );
  expect(linesOf({ previews })).toEqual([
    ["towline/shop/d10", "failure"],
    ["towline", "failure"],
  ]);
});
