/** `npm run mutate`: changes the decision functions one small thing at a time, and reports the changes that no unit test detects. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { Stryker } from "@stryker-mutator/core";
import { core, type CoreFile } from "./mutate/core.ts";
import { type FileVerdict, judge } from "./mutate/survivors.ts";
import { readOptions } from "./options.ts";

const help = `npm run mutate [-- options]

Changes one thing at a time in the decision functions (a comparison, a condition, a statement …), in a copy of the sources, and runs
their unit tests. A change that no test detects is a surviving mutant. dev/mutate/core.ts lists the files, and the mutants that
may survive, with the reason; any other surviving mutant is a failure.

  --only FILE     Mutate only FILE; can be repeated
  --minutes N     Stop after N minutes and report the results so far: 60
  --help          Show this help

All files take about half an hour on two idle cores. Exit status:

  0   every mutant was killed, or may survive
  1   a mutant survives without a reason, or a listed one was killed, so that the list is out of date; also if the time was over
      before all files were done
  2   an option is invalid
`;

const options = readOptions(
  { only: { type: "string", multiple: true, default: [] }, minutes: { type: "string", default: "60" } },
  help,
);

const say = (line: string) => void process.stdout.write(`${line}\n`);
const root = join(import.meta.dirname, "..");

process.chdir(root);
const files = filesToMutate();
const minutes = Number(options.minutes);
if (!(minutes > 0)) fail(`--minutes: ${JSON.stringify(options.minutes)} is not a positive number of minutes`);

const tempDir = mkdtempSync(join(tmpdir(), "towline-mutate-"));
// Also on Ctrl-C, when Stryker ends the process itself.
process.on("exit", () => rmSync(tempDir, { recursive: true, force: true, maxRetries: 5 }));

const startedAt = performance.now();
const verdicts = new Map<string, FileVerdict>();
setTimeout(() => {
  report();
  say(`stopped after ${minutes} minutes, before all files were done`);
  process.exit(1);
}, minutes * 60_000).unref();

for (const [file, { tests, mayLive }] of files) {
  const verdict = judge(readFileSync(file, "utf8"), await mutate(file, tests), mayLive);
  verdicts.set(file, verdict);
  say(describe(file, verdict));
}
report();
if ([...verdicts.values()].some(isWrong)) process.exitCode = 1;
// A handle that the test runner left open must not keep the process running.
process.exit();

function mutate(file: string, tests: string): ReturnType<Stryker["runMutationTest"]> {
  process.env["MUTATE_TESTS"] = tests;
  return new Stryker({
    mutate: [file],
    // Texts are for humans; the tests do not repeat all of them.
    mutator: { excludedMutations: ["StringLiteral"] },
    testRunner: "vitest",
    plugins: [import.meta.resolve("@stryker-mutator/vitest-runner")],
    vitest: { configFile: "dev/mutate/vitest.config.ts", related: true },
    concurrency: 2,
    // Long enough that a mutant on a busy machine is not mistaken for an endless one.
    timeoutMS: 30_000,
    tempDirName: tempDir,
    cleanTempDir: "always",
    ignorePatterns: ["/chaos", "/dist", "/site"],
    // TypeScript 7 has no API to read tsconfig.json, and Stryker does not need it.
    tsconfigFile: "none",
    reporters: ["progress-append-only"],
    allowConsoleColors: false,
  }).runMutationTest();
}

function filesToMutate(): readonly (readonly [string, CoreFile])[] {
  if (options.only.length === 0) return Object.entries(core);
  return options.only.map((path) => {
    const file = relative(root, resolve(path));
    return [file, core[file] ?? fail(`--only: ${file} is not mutated; use one of ${Object.keys(core).join(", ")}`)];
  });
}

function report(): void {
  const [killed, total] = [sum(({ killed }) => killed), sum(({ total }) => total)];
  const took = Math.round((performance.now() - startedAt) / 60_000);
  const unexplained = sum(({ survivors }) => survivors.length);
  say(
    `${verdicts.size} of ${files.length} files in ${took} minutes: ${killed} of ${total} mutants killed` +
      ` (${percent(killed, total)}), ${total - killed - unexplained} survive for a known reason, ${unexplained} without one`,
  );
}

function describe(file: string, verdict: FileVerdict): string {
  const { killed, timedOut, total, survivors, outdated } = verdict;
  const slow = timedOut > 0 ? `, ${timedOut} of them because the tests did not end in time` : "";
  return [
    `${isWrong(verdict) ? "FAIL" : "ok  "} ${file}: ${killed} of ${total} killed (${percent(killed, total)})${slow}`,
    ...survivors.map(({ line, mutant }) => `       line ${line} survives: ${mutant}`),
    ...outdated.map((mutant) => `       listed in dev/mutate/core.ts, but does not survive: ${mutant}`),
  ].join("\n");
}

function isWrong({ survivors, outdated }: FileVerdict): boolean {
  return survivors.length > 0 || outdated.length > 0;
}

function sum(of: (verdict: FileVerdict) => number): number {
  return [...verdicts.values()].reduce((all, verdict) => all + of(verdict), 0);
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(1)} %`;
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
