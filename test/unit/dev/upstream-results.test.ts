import { expect, test } from "vitest";
import { parseResult, parseStart, summarize } from "../../../dev/upstream/results.ts";

test("a verbose run of Go's tests is counted, and a test that did not finish has failed", () => {
  const lines = [
    "=== RUN   TestA",
    "=== RUN   TestA/one",
    "=== RUN   TestB",
    "    --- PASS: TestA/one (0.05s)",
    "--- FAIL: TestA (1.50s)",
    "    suite_test.go:1: --- FAIL: not a result",
  ];
  const started = lines.map(parseStart).filter((name) => name !== undefined);
  const results = lines.map(parseResult).filter((result) => result !== undefined);
  expect(results[1]).toEqual({ name: "TestA", outcome: "failed", seconds: 1.5 });
  expect(summarize(started, results)).toEqual({
    passed: 1,
    failed: 2,
    skipped: 0,
    failures: ["TestA", "TestB (did not end)"],
  });
});
