import { expect, test } from "vitest";
import { formatReads, parseReads, renderedPaths } from "../../../src/model/outside-reads.ts";

test.each([
  ["nothing", [], "apps/shop/"],
  ["two places", ["base", "shared/vars.yaml"], "apps/shop/\nbase\nshared/vars.yaml"],
  ["anything", undefined, "apps/shop/\n*"],
])("that a project reads %s outside of its directory is recorded, and read again", (_, reads, text) => {
  expect(formatReads("apps/shop", reads)).toBe(text);
  expect(parseReads("apps/shop", text)).toEqual(reads);
});

test("without a record, or with that of another path, nothing is known", () => {
  expect(parseReads("apps/shop", undefined)).toBeUndefined();
  expect(parseReads("apps/blog", formatReads("apps/shop", ["base"]))).toBeUndefined();
  expect(parseReads("apps/shop", Array.from({ length: 101 }, (_, at) => `lib${at}`).join("\n"))).toBeUndefined();
});

test("the record of an older server is a list of places", () => {
  expect(parseReads("apps/shop", "base\n\n shared/vars.yaml \n")).toEqual(["base", "shared/vars.yaml"]);
  expect(parseReads("apps/shop", Array.from({ length: 100 }, (_, at) => `lib${at}`).join("\n"))).toHaveLength(100);
});

test("the paths of a result start from the directories of the projects that name them", () => {
  const deployment = {
    vars: [{ file: "../../vars.yaml" }, { values: {} }],
    deployments: [
      { path: "app", vars: [{ file: "app.yaml" }] },
      { path: "chart", renderedHelmChartConfig: { helmChart: { path: "../charts/db" } } },
      {
        include: "../../base",
        renderedInclude: { vars: [{ file: "../own.yaml" }], deployments: [{ path: "deep" }] },
      },
      { git: { url: "https://git.example.com/org/library" }, renderedInclude: { deployments: [{ path: "theirs" }] } },
      { barrier: true },
    ],
  };
  expect(renderedPaths({ deployment }).map(({ directory, path }) => [directory, path])).toEqual([
    ["", "../../vars.yaml"],
    ["", "app.yaml"],
    ["", "app"],
    ["", "chart"],
    ["chart", "../charts/db"],
    ["", "../../base"],
    ["../../base", "../own.yaml"],
    ["", "../own.yaml"],
    ["../../base", "deep"],
  ]);
  expect(renderedPaths({})).toEqual([]);
});
