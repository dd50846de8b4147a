import type { TestModule } from "vitest/node";

export interface TestCounts {
  passed: number;
  failed: number;
  skipped: number;
}

/**
 * Counts what a run came to. A file that could not be loaded, a hook that failed and an error outside of any test count
 * as one failed test each: nothing that went wrong is missing in the last line.
 */
export function countTests(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): TestCounts {
  const counts: TestCounts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
  for (const module of modules) {
    const failedBefore = counts.failed;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      counts[state === "pending" ? "failed" : state] += 1; // pending: it never came to an end
    }
    if (module.state() === "failed" && counts.failed === failedBefore) counts.failed += 1;
  }
  return counts;
}

/** The last line of a run, which `.ci/run` reads. */
export function formatCounts({ passed, failed, skipped }: TestCounts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}
