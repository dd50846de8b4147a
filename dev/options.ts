/** Reads the options of a developer command; handles `--help`, and reports a mistake in one line. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

/** Ends the process with 0 after `--help`, and with 2 if the options are invalid. */
export function readOptions<const T extends ParseArgsOptionsConfig>(options: T, help: string) {
  if (process.argv.slice(2).includes("--help")) {
    process.stdout.write(help);
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    process.stderr.write(`${(error as Error).message.split(". ")[0]}.\n\n${help}`);
    process.exit(2);
  }
}
