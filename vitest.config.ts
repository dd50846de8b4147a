import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { cacheDir } from "./dev/cache.ts";

// Compiling what has not changed is most of the start of each process: of those that run tests, and of those that they start.
process.env["NODE_COMPILE_CACHE"] ??= join(cacheDir(), "compiled");

const patient = { testTimeout: 300_000, hookTimeout: 300_000, fileParallelism: false };

/**
 * Tests leave nothing behind, so that a process can go on with the next file: of the unit tests' time, imports were two
 * thirds, and of the others' processor time 5 %.
 */
const isolate = false;

const setupFiles = ["test/support/seed.ts"];

/** The parts that these tests meet are started when the first test asks for them. */
const realParts = {
  isolate,
  globalSetup: ["test/support/global-setup.ts"],
  testTimeout: 180_000,
  hookTimeout: 180_000,
};

/** What takes minutes is begun first, and what takes no time fills the gaps at the end: nobody waits for one last file. */
class LongOnesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) => ["e2e", "integration", "unit"].indexOf(project.name);
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongOnesFirst },
    pool: "forks",
    // On two cores, which the parts that they talk to share with them: most tests wait most of the time.
    maxWorkers: 4,
    expect: { poll: { timeout: 120_000, interval: 100 } },
    projects: [
      {
        extends: true,
        // On a busy machine, a test that computes for a second takes half a minute.
        test: { name: "unit", include: ["test/unit/**/*.test.ts"], setupFiles, testTimeout: 120_000, isolate },
      },
      {
        extends: true,
        test: { name: "integration", include: ["test/integration/**/*.test.ts"], setupFiles, ...realParts },
      },
      { extends: true, test: { name: "e2e", include: ["test/e2e/**/*.test.ts"], ...realParts, testTimeout: 900_000 } },
      // `npm run test:image` has built it by then.
      ...(process.env["TEST_IMAGE"]
        ? [
            {
              extends: true as const,
              test: {
                name: "image",
                include: ["test/image/**/*.test.ts"],
                ...realParts,
                fileParallelism: false,
                ...(process.env["TEST_EMULATED"] && { testTimeout: 1_800_000 }),
              },
            },
          ]
        : []),
      // Within the cluster that `npm run test:cluster` starts.
      ...(process.env["TEST_CLUSTER"]
        ? [{ extends: true as const, test: { name: "cluster", include: ["test/cluster/**/*.test.ts"], ...patient } }]
        : []),
      // `npm run test:foreign` has built the programs by then.
      ...(process.env["TEST_FOREIGN"]
        ? [{ extends: true as const, test: { name: "foreign", include: ["test/foreign/**/*.test.ts"], ...realParts } }]
        : []),
    ],
  },
});
