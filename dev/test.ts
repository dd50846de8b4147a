/** `npm test`: runs all tests, or those that the arguments select as in vitest. Ends with the counts. */
import { join } from "node:path";
import { parseCLI, startVitest } from "vitest/node";
import { countTests, formatCounts } from "./count-tests.ts";

const { filter, options } = parseCLI(["vitest", "run", ...process.argv.slice(2)]);
const vitest = await startVitest(filter, { root: join(import.meta.dirname, ".."), ...options });
const counts = countTests(vitest.state.getTestModules(), vitest.state.getUnhandledErrors());
await vitest.close();

if (counts.failed > 0 || counts.passed === 0) process.exitCode = 1;
// The world has stopped by now, so no output follows this line. A handle that a test left open must not keep the
// process running.
process.stdout.write(`\n${formatCounts(counts)}\n`, () => process.exit());
