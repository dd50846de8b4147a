import { expect, test } from "vitest";
import type { CommitStatus } from "../../../src/model.ts";
import { detailsOf, withDetails } from "../../../src/reporting/status-details.ts";
import { aPreview, aReport } from "../../support/fake-reports.ts";

const line = (context: string): CommitStatus => ({ context, state: "failure", description: "would fail" });

test("only the summary has details, and none on a forge that shows none", () => {
  const details = { text: "text", notes: [] };
  expect(withDetails([line("towline/shop/prod"), line("towline")], () => details)).toEqual([
    line("towline/shop/prod"),
    { ...line("towline"), details },
  ]);
  expect(detailsOf(aReport(), () => "text", undefined)).toBeUndefined();
});

test.each([
  ["a", 100],
  ["é", 33],
  ["…", 33],
])("a text of %j fits into the bytes that the forge allows", (character, length) => {
  const render = (_report: unknown, { maxLength }: { maxLength: number }) => character.repeat(maxLength);
  const text = detailsOf(aReport(), render, 100)?.text ?? "";
  expect(text).toHaveLength(length);
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(100);
});

test("each line that cannot be rendered is noted once, with the number of deployments that it breaks", () => {
  const broken = (name: string, path: string) =>
    aPreview({
      deployment: { namespace: "shop", name },
      state: "failed",
      failed: "render",
      failure: `1 error occurred:\n\t* File "app.yml", line 3, in template\n    x: {{ a }}\nUndefinedError: 'a' is undefined\n`,
      at: { path, line: 3 },
    });
  const elsewhere = aPreview({ state: "failed", failed: "run", failure: "no connection" });
  const previews = [broken("a", "app.yml"), broken("b", "app.yml"), broken("c", "other.yml"), elsewhere];
  const message = "app.yml:3: UndefinedError: 'a' is undefined";
  expect(detailsOf(aReport({ previews }), () => "text", 100)?.notes).toEqual([
    { path: "app.yml", line: 3, message, title: "Towline: shop/a and 1 other deployment cannot be rendered" },
    { path: "other.yml", line: 3, message, title: "Towline: shop/c cannot be rendered" },
  ]);
});
