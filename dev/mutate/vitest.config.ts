/** The unit tests, as `npm run mutate` runs them: always with the same random input, so that a mutant lives or dies every time. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    // Stryker's own option for that (10.1) leaves mutants of a module's constants asleep.
    include: [process.env["MUTATE_TESTS"] ?? "test/unit/**/*.test.ts"],
    setupFiles: ["dev/mutate/same-input.ts"],
    testTimeout: 30_000,
    isolate: false,
  },
});
