/** The work for one result is limited: everything beyond the limit is hidden. */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { maskResult } from "../../../src/redact/mask-result.ts";
import { createRedactor } from "../../../src/redact/redactor.ts";
import { aResult } from "../../support/deployments.ts";

const secretLines = lines(60_000);

function lines(count: number): string[] {
  return Array.from({ length: count }, () => randomBytes(15).toString("base64url"));
}

test("one value of 60 000 lines counts as too many values, and nothing is shown", () => {
  const redactor = createRedactor([secretLines.join("\n")]);
  expect(redactor.whyIncomplete()).toBe("there are too many secret values to look for");
  expect(redactor.text(`got ${secretLines[59_999]} and\n  more`)).toBe("*****\n  *****");
});

test("values that split into too many parts count as too many, whatever they contain", () => {
  const settings = lines(15_000).map((value, i) => `KEY_${i}=${value}`);
  expect(createRedactor([settings.join("\n")]).whyIncomplete()).toMatch(/too many/);
  expect(createRedactor([randomBytes(5_000_000)]).whyIncomplete()).toMatch(/too many/);
  expect(createRedactor([lines(1_000).join("\n"), randomBytes(100_000)]).whyIncomplete()).toBeUndefined();
});

test("a result with such a Secret shows what changed, and no text", () => {
  const stringData = { all: secretLines.join("\n") };
  const rendered = JSON.stringify({ apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, stringData });
  const ref = (kind: string) => ({ version: "v1", kind, name: "s", namespace: "shop" });
  const flags = { new: false, orphan: false, deleted: false, hook: false };
  const change = { type: "update" as const, jsonPath: "data.a", oldValue: "old", newValue: "new" };
  const result = aResult({
    objects: [
      { ref: ref("Secret"), changes: [], ...flags, new: true, rendered },
      { ref: ref("ConfigMap"), changes: [change], ...flags, remote: "{}" },
    ],
    errors: [{ ref: ref("Secret"), message: "got it wrong" }],
  });
  const masked = maskResult(result);
  expect(masked.objects[1]?.changes).toEqual([{ ...change, oldValue: "*****", newValue: "*****" }]);
  expect(JSON.stringify(masked.errors)).not.toContain("wrong");
});
