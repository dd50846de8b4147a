/** `npm run test:upstream`: runs kluctl's own GitOps end-to-end tests against `towline controller run`. */
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { createReadStream } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { cacheDir } from "./cache.ts";
import { formatCounts } from "./count-tests.ts";
import { endOfRun } from "./end-of-run.ts";
import { startProcess } from "./parts/process.ts";
import { createStateDir } from "./parts/state-dir.ts";
import { findTools } from "./tools.ts";
import { buildSuite, suiteVersion } from "./upstream/build-suite.ts";
import { parseResult, parseStart, summarize, type TestResult } from "./upstream/results.ts";

const help = `npm run test:upstream [-- options] [PATTERN]

Downloads the GitOps end-to-end tests of kluctl ${suiteVersion} as a Go module, compiles them once, and runs them against
\`towline controller run\`, with a real API server and the real kluctl as client. Takes about ten minutes on two cores.

  PATTERN        Run only the tests that match this regular expression, in Go's syntax: 'TestGitOpsMisc/Test_.*'
  --own          Run the tests against kluctl's own controller, to see how they behave on this machine
  --parallel N   Run N suites at a time: 2
  --logs DIR     Write the logs to DIR
  --help         Show this help
`;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    own: { type: "boolean", default: false },
    parallel: { type: "string", default: "2" },
    logs: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

const say = (line: string) => void process.stderr.write(`${line}\n`);
const longestMs = 60 * 60_000;

if (options.help) process.stdout.write(help);
else await main();

async function main(): Promise<void> {
  const ending = endOfRun();
  const tools = await findTools(["etcd", "kube-apiserver", "kluctl", "redis-server"], { say });
  const suite = await buildSuite(options.own, say);
  const state = await createStateDir();
  const logs = options.logs ?? join(cacheDir(), "upstream", "logs", new Date().toISOString().replaceAll(/[:.]/g, "-"));
  await mkdir(logs, { recursive: true });
  // The suite expects both in one folder.
  const assets = join(state.path, "assets");
  await mkdir(assets);
  for (const tool of [tools.etcd, tools["kube-apiserver"]]) await symlink(tool, join(assets, basename(tool)));

  const logFile = join(logs, "suite.log");
  const running = await startProcess({
    name: "the suite",
    command: suite.binary,
    args: [
      `-test.run=${positionals[0] ?? "TestGitOps|TestGitops"}`,
      "-test.v",
      `-test.parallel=${options.parallel}`,
      `-test.timeout=${longestMs}ms`,
    ],
    cwd: suite.cwd,
    logFile,
    env: {
      ...process.env,
      KUBEBUILDER_ASSETS: assets,
      UPSTREAM_CONTROLLER: [process.execPath, join(import.meta.dirname, "../src/cli.ts")].join("\n"),
      UPSTREAM_LOGS: logs,
      XDG_STATE_HOME: state.path,
      TOWLINE_KLUCTL: tools.kluctl,
      TOWLINE_KLUCTL_CACHE_DIR: join(state.path, "kluctl"), // cached charts of an earlier run would not require a login
      TOWLINE_REDIS_SERVER: tools["redis-server"],
    },
  });
  const over = running.exited.then(() => true);
  ending.addEventListener("abort", () => void running.stop(60_000));
  const { started, results } = await follow(logFile, over);
  const { ok, reason } = await running.exited;
  await endLeftovers(assets);
  await state.remove();

  const { failures, ...counts } = summarize(started, results);
  const broken = !ok && counts.failed === 0; // the suite ended without reporting any test
  say(`logs: ${logs}`);
  for (const name of failures) say(`failed: ${name}`);
  if (broken) say(`the test process failed: ${reason}`);
  if (!ok || counts.failed > 0 || counts.passed === 0) process.exitCode = 1;
  process.stdout.write(
    `\nkluctl ${suiteVersion}: ${formatCounts({ ...counts, failed: counts.failed + Number(broken) })}\n`,
  );
}

/** The suite starts its clusters in process groups of their own and leaves them behind when it is killed. */
async function endLeftovers(assets: string): Promise<void> {
  for (const pid of (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name))) {
    // the process may have ended meanwhile
    const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (commandLine.startsWith(assets)) process.kill(Number(pid), "SIGKILL");
  }
}

/** Prints the result of each test as it is written to the log, until the tests have ended. */
async function follow(
  path: string,
  over: Promise<boolean>,
): Promise<{ started: ReadonlySet<string>; results: readonly TestResult[] }> {
  const started = new Set<string>();
  const results: TestResult[] = [];
  let at = 0;
  for (let last = false; !last;) {
    last = await Promise.race([over, sleep(1_000, false)]);
    // Only complete lines: the rest is read again.
    for await (const line of wholeLines(path, at, (bytes) => (at += bytes))) {
      const name = parseStart(line);
      if (name !== undefined) started.add(name);
      const result = parseResult(line);
      if (result === undefined) continue;
      results.push(result);
      const mark = { passed: "ok  ", failed: "FAIL", skipped: "skip" }[result.outcome];
      say(`${mark} ${result.name} (${result.seconds.toFixed(1)} s)`);
    }
  }
  return { started, results };
}

async function* wholeLines(path: string, start: number, read: (bytes: number) => void): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { start })) {
    rest = Buffer.concat([rest, chunk as Buffer]);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield rest.subarray(0, end).toString("utf8");
      read(end + 1);
      rest = rest.subarray(end + 1);
    }
  }
}
