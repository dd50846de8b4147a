import { expect, test } from "vitest";
import { showReport } from "../../../src/views/show-report.ts";
import { selectPreviews } from "../../../ui/select-previews.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const object = (kind: string, name: string, diff: string) => ({
  ...{ ref: { kind, name, namespace: "shop" }, action: "changed" as const, risks: [] },
  diff: ` spec.image:\n-  ${name}:1\n+  ${diff}`,
});
const { previews } = showReport(
  aReport({
    previews: ["prod", "staging"].map((name) =>
      aPreview({
        deployment: { namespace: "shop", name },
        target: name,
        objects: [object("Deployment", "api", `${name}/api:2`), object("CronJob", "mail", "mail:3")],
      }),
    ),
  }),
);
const all = previews.map((preview) => ({ preview, changes: preview.changes }));
const found = (text: string) =>
  selectPreviews(all, text).map(({ preview, changes }) => [
    preview.deployment,
    ...changes.objects.map(({ object: name }) => name),
  ]);

test("the name of a deployment finds it with all its objects", () => {
  expect(found("prod")).toEqual([["shop/prod", "Deployment shop/api", "CronJob shop/mail"]]);
  expect(found("").length).toBe(2);
});

test("an object's name or the text of its diff finds the object, in the deployments that the other words name", () => {
  expect(found("cronjob")).toEqual([
    ["shop/prod", "CronJob shop/mail"],
    ["shop/staging", "CronJob shop/mail"],
  ]);
  expect(found("STAGING spec.image mail:3")).toEqual([["shop/staging", "CronJob shop/mail"]]);
  expect(found("staging/api:2")).toEqual([["shop/staging", "Deployment shop/api"]]);
  expect(found("nothing of the kind")).toEqual([]);
});
