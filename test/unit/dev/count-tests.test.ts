import { expect, test } from "vitest";
import type { TestModule, TestState } from "vitest/node";
import { countTests, formatCounts } from "../../../dev/count-tests.ts";

test("passed, failed and skipped tests are counted over all files", () => {
  const counts = countTests(
    [fakeModule("failed", ["passed", "failed"]), fakeModule("passed", ["passed", "skipped"])],
    [],
  );

  expect(formatCounts(counts)).toBe("2 passed, 1 failed, 1 skipped");
});

test("a file that cannot be loaded, a test that did not finish and an error outside of tests count as failures", () => {
  const counts = countTests([fakeModule("failed", []), fakeModule("pending", ["pending"])], [new Error("late")]);

  expect(formatCounts(counts)).toBe("0 passed, 3 failed");
});

test("a file is not counted as failed in addition to its failed tests", () => {
  const counts = countTests([fakeModule("failed", ["failed", "failed"])], []);

  expect(formatCounts(counts)).toBe("0 passed, 2 failed");
});

function fakeModule(state: "passed" | "failed" | "pending", tests: TestState[]): TestModule {
  const children = { allTests: () => tests.map((one) => ({ result: () => ({ state: one }) })) };
  return { state: () => state, children } as unknown as TestModule;
}
