/**
 * Runs the unit tests for `npm run mutate`: always with the same random input and without CPU time, so that the result
 * for a mutant never varies.
 */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // Stryker's own option for that (10.1) does not activate mutants in module-level constants.
    include: [process.env["MUTATE_TESTS"] ?? "test/unit/**/*.test.ts"],
    setupFiles: ["test/support/seed.ts", "dev/mutate/no-cpu-time.ts"],
    // Stryker has a limit of its own, and reports which mutants reach it.
    testTimeout: 0,
    isolate: false,
  },
});
