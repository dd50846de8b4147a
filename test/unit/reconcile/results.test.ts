import { expect, test } from "vitest";
import { maskResult } from "../../../src/redact/mask-result.ts";
import { toCommandSummary, toDrift, toValidateSummary } from "../../../src/reconcile/status/results.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const context = {
  id: "id-1",
  reconcileId: "id-2",
  deployment: { namespace: "shop", name: "prod" },
  clusterId: "cluster-1",
  projectKey: {},
  targetKey: { clusterId: "cluster-1" },
  objectsHash: "hash-1",
  source: { kind: "git", url: "", ref: {}, path: "" } as const,
};

test("the status is limited in size, however many errors there are, and contains their number", () => {
  const errors = Array.from({ length: 5_000 }, (_, i) => ({
    ref: { kind: "ConfigMap", name: `c${i}` },
    message: "x".repeat(3_000),
  }));
  const objects = errors.map(({ ref }, i) =>
    anObject({ ref, changes: [{ type: "update", jsonPath: `data.k${i}`, newValue: "y".repeat(3_000) }] }),
  );
  const result = maskResult(aResult({ errors, objects }));

  const summary = toCommandSummary(result, context);
  expect(summary.errors).toBe(5_000);
  expect(JSON.stringify(summary.document).length).toBeLessThan(100_000);
  const listed = summary.document["errors"] as readonly { message: string }[];
  expect(listed.at(-1)).toEqual({ ref: { kind: "", name: "" }, message: `and ${5_001 - listed.length} more` });

  const validated = toValidateSummary(
    { document: { ready: false, errors }, ready: false, errors, warnings: [] },
    context,
  );
  expect(validated.errors).toBe(5_000);
  expect(JSON.stringify(validated.document).length).toBeLessThan(100_000);

  const drift = toDrift(result, context);
  expect(drift.message).toBe("5000 chg/5000 err");
  expect(JSON.stringify(drift.summary.document).length).toBeLessThan(500_000);
});
