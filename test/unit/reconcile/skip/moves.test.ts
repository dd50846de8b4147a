import { expect, test } from "vitest";
import { annotation, type GitDeployment } from "../../../../src/model.ts";
import { whyConcerned } from "../../../../src/skipping/moves.ts";
import { aDeployment, aSpec } from "../../../support/deployments.ts";

const source = { url: "https://git.example.com/org/shop", ref: { branch: "main" }, path: "apps/shop" };
const deployment = aDeployment({
  spec: aSpec({ source }),
  annotations: { [annotation.paths]: "base/**" },
}) as GitDeployment;

test.each([
  ["apps/shop/app.yaml"],
  ["apps/shop/.kluctl.yaml"],
  ["base/vars.yaml"],
  [".gitattributes"],
  [".helm-charts/registry/chart-1.0.0/values.yaml"],
  ["apps/.sops.yaml"],
])("a change of %s affects the project at apps/shop", (path) => {
  expect(whyConcerned({ complete: true, paths: ["README.md", path] }, deployment)).toBeDefined();
});

test.each([["apps/shopping/app.yaml"], ["apps/search/.kluctl.yaml"], ["README.md"], ["apps/shop.yaml"]])(
  "a change of %s does not",
  (path) => {
    expect(whyConcerned({ complete: true, paths: [path] }, deployment)).toBeUndefined();
  },
);

test("a move without changes affects no project, and one with unknown changes affects every project", () => {
  expect(whyConcerned({ complete: true, paths: [] }, deployment)).toBeUndefined();
  expect(whyConcerned({ complete: false, paths: [] }, deployment)).toBeDefined();
});
