import { expect, test } from "vitest";
import { fitManifests, type ReportManifests } from "../../../src/model/manifests.ts";

const object = (name: string, text: string) => ({ ref: { kind: "ConfigMap", name }, text, linesLeftOut: 0 });
const shown = ({ deployments }: ReportManifests) =>
  deployments.map(({ deployment, objects, leftOut }) => [
    deployment,
    objects.map(({ ref }) => ref.name).join(),
    leftOut,
  ]);

test("each deployment keeps its first manifests, equal texts count once, and the rest is counted", () => {
  const manifests: ReportManifests = {
    startedAt: 1,
    deployments: [
      { deployment: "shop/a", objects: [object("1", "aaaaa"), object("2", "bbbbb"), object("3", "ccccc")], leftOut: 0 },
      { deployment: "shop/b", objects: [object("4", "ddddd"), object("5", "bbbbb")], leftOut: 2 },
    ],
  };
  expect(fitManifests(manifests, 20)).toEqual(manifests);
  expect(shown(fitManifests(manifests, 15))).toEqual([
    ["shop/a", "1,2", 1],
    ["shop/b", "4,5", 2],
  ]);
  expect(shown(fitManifests(manifests, 0))).toEqual([
    ["shop/a", "", 3],
    ["shop/b", "", 4],
  ]);
});
