import { expect, test } from "vitest";
import { annotation } from "../../../src/model.ts";
import { namesIncludes, namesInputs } from "../../../src/views/rendered-from.ts";
import { aDeployment } from "../../support/deployments.ts";

const git = "https://git.example.com/org/library";

test("a result names every repository, artifact and chart of its project once, and no login", () => {
  const chart = (fields: object) => ({ path: "chart", renderedHelmChartConfig: { helmChart: fields } });
  const deployment = {
    vars: [{ file: "local.yaml" }, { git: { url: git, ref: { branch: "main" } } }],
    deployments: [
      { git: { url: "https://ann:secret@git.example.com/org/library", ref: { branch: "main" } } },
      { git: { url: `${git}?private_token=secret#secret` } },
      { git: { url: `${git}/${"long".repeat(200)}` } },
      { include: "more", renderedInclude: { deployments: [{ git: { url: git, ref: { commit: "1".repeat(40) } } }] } },
      { oci: { url: "oci://registry.test/base", ref: { digest: "sha256:12" } } },
      { oci: { url: "oci://registry.test/other" } },
      chart({ repo: "https://charts.test", chartName: "web", chartVersion: "1.2.3" }),
      chart({ repo: "oci://registry.test/charts/db", chartVersion: "1.2" }),
      chart({ path: "../own" }),
    ],
  };
  expect(namesInputs({ deployment })).toEqual([
    "chart oci://registry.test/charts/db version 1.2",
    "chart web https://charts.test version 1.2.3",
    `${git} branch main`,
    `${git} commit ${"1".repeat(40)}`,
    `${git} the default branch`,
    "oci://registry.test/base sha256:12",
    "oci://registry.test/other tag latest",
  ]);
});

test.each([[{}], [{ deployment: null }], [{ deployment: { deployments: [7, { git: "x" }, { git: { url: 7 } }] } }]])(
  "what names nothing is ignored: %j",
  (document) => {
    expect(namesInputs(document)).toEqual([]);
  },
);

test("a deployment names what it includes, with the commit that it rendered at least", () => {
  const commit = "3f2c1ab".padEnd(40, "0");
  const annotations = {
    [annotation.includes]: `${git} refs/heads/main\nhttps://git.example.com/org/vars\noci://registry.test/charts/db 1.2`,
    [annotation.includedCommits]: `${git} refs/heads/main ${commit}`,
  };
  expect(namesIncludes(aDeployment({ annotations }))).toEqual([
    `${git} branch main, 3f2c1ab or newer`,
    "https://git.example.com/org/vars the default branch",
    "oci://registry.test/charts/db tag 1.2",
  ]);
  expect(namesIncludes(aDeployment())).toEqual([]);
});
