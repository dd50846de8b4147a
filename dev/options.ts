/** The options of a script that a person types: `--help` is answered, a slip is told in one line. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

/** Ends the process with 0 after `--help`, with 2 when the options are not understood. */
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
