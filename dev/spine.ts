/** `npm run spine`: which files one push passes through, and how much there is to read. */
import { join } from "node:path";
import { readOptions } from "./options.ts";
import type { CountedFile } from "./spine/count.ts";
import { explainExtent, extentOf, goal, limit, measureSpine } from "./spine/measure.ts";

const help = `npm run spine [-- options]

Sends one push through the webhook route, queue, worker and reconciliation, with stand-ins for git, the cluster and kluctl, and lists
the files whose functions ran until the status was written, in the order in which they were first entered. The files that
docs/architecture.md lists count, and so do helpers that only one counted file uses. Fails if they became more.

  --all   Also list what ran and does not count, with the files that use it
  --help  Show this help
`;

const { all } = readOptions({ all: { type: "boolean", default: false } }, help);
const say = (line: string) => void process.stdout.write(`${line}\n`);

const spine = await measureSpine(join(import.meta.dirname, ".."), (line) => void process.stderr.write(`${line}\n`));
const { files, lines, code } = extentOf(spine);
const width = Math.max(...spine.counted.map(({ file }) => file.length));
for (const one of spine.counted) {
  say(`${one.file.padEnd(width)} ${pad(one.code)} ${pad(one.lines)}  ${describe(one)}`);
}
say(`${`${files} files`.padEnd(width)} ${pad(code)} ${pad(lines)}  lines of code, and with comments`);
say(`goal: ${goal.files} files, ${goal.lines} lines; limit: ${limit.files} files, ${limit.lines} lines`);
if (all) {
  say("\nAlso executed:");
  for (const { file, usedBy } of spine.beside) say(`${file}  ${usedBy.join(", ") || "(connected by src/app)"}`);
} else say(`${spine.beside.length} more files are shared, or reached through a port: --all lists them`);

const wrong = explainExtent(spine);
for (const sentence of wrong) say(sentence);
if (wrong.length > 0) process.exitCode = 1;

function describe({ step, helperOf }: CountedFile): string {
  if (step !== undefined) return `step ${step}`;
  return helperOf === undefined ? "connects" : `only for ${helperOf}`;
}

function pad(count: number): string {
  return String(count).padStart(5);
}
