import type { TestModule } from "vitest/node";

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/**
 * Counts the results of a run. A file that could not be loaded, a failed hook and an error outside of any test count as
 * one failed test each, so that the last line omits no failure.
 */
export function countTests(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): TestCounts {
  const counts: TestCounts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
  for (const module of modules) {
    const failedBefore = counts.failed;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      counts[state === "pending" ? "failed" : state] += 1; // pending: the test never ended
    }
    if (module.state() === "failed" && counts.failed === failedBefore) counts.failed += 1;
  }
  return counts;
}

/** The last line of a run, which `.ci/run` reads. */
export function formatCounts({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}
