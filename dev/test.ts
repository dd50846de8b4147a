/** `npm test`: all tests, or those that the arguments name, as vitest takes them. Ends with the count. */
import { join } from "node:path";
import { parseCLI, startVitest } from "vitest/node";
import { countTests, formatCounts } from "./count-tests.ts";

const { filter, options } = parseCLI(["vitest", "run", ...process.argv.slice(2)]);
const vitest = await startVitest(filter, { root: join(import.meta.dirname, ".."), ...options });
const counts = countTests(vitest.state.getTestModules(), vitest.state.getUnhandledErrors());
await vitest.close();

if (counts.failed > 0 || counts.passed === 0) process.exitCode = 1;
// The world is stopped by now, so nothing comes after this line. A handle that a test forgot must not keep us.
process.stdout.write(`\n${formatCounts(counts)}\n`, () => process.exit());
