/** Processes that the starter has started end with it, and with the server. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { runProcess } from "../../../src/kluctl/process.ts";
import { startStarter } from "../../../src/starter/starter.ts";
import { patience } from "../../support/patience.ts";
import { findProcessesOf } from "../../support/processes.ts";
import { useTempDir } from "../../support/world.ts";

const limits = {
  ...{ timeoutMs: 60_000, graceMs: 100, silenceMs: 60_000 },
  ...{ keptBytes: 10_000, lineLength: 1_000, lines: 100 },
};

async function useStarter() {
  const dir = await useTempDir();
  const starter = startStarter({ home: join(dir, "home"), env: process.env });
  onTestFinished(() => starter.stop());
  const run = (script: string, onLine?: () => void) =>
    runProcess({
      ...{ name: "it", command: "bash", args: ["-c", script], env: { PATH: process.env["PATH"] ?? "" }, cwd: dir },
      ...{ limits, signal: new AbortController().signal, start: starter.startWatched, ...(onLine && { onLine }) },
    });
  const running = () => findProcessesOf(dir).filter(({ command }) => !command.includes("starter-process"));
  return { starter, dir, run, running };
}

/** The tests of this file run sequentially, and each has a starter of its own. */
function starterOf(server: number): number {
  const found = findProcessesOf("starter-process").find(({ pid }) => parentOf(pid) === server);
  if (found === undefined) throw new Error("there is no starter");
  return found.pid;
}

function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

const ignoring = "trap '' TERM; echo begun >&2; while :; do sleep 0.05; done";

test("when the starter is killed, its processes end, and the next process is started by a new starter", async () => {
  const { run, running } = await useStarter();
  const begun = Promise.withResolvers<void>();
  const waiting = run(ignoring, begun.resolve);
  await begun.promise;
  process.kill(starterOf(process.pid), "SIGKILL");
  await expect(waiting).rejects.toMatchObject({ why: "signal" });
  expect(running()).toEqual([]);
  expect(await run("echo again")).toMatchObject({ exitCode: 0, stdout: "again\n" });
});

test("a starter that has lost its server ends its processes", async () => {
  const dir = await useTempDir();
  const script = fileURLToPath(new URL("child-watched.ts", import.meta.url));
  const server = spawn(process.execPath, [script, dir], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void server.kill("SIGKILL"));
  await new Promise((resolve) => server.stdout.once("data", resolve));
  expect(findProcessesOf(dir, [server.pid])).not.toEqual([]);

  server.kill("SIGKILL");
  await vi.waitFor(() => expect(findProcessesOf(dir, [server.pid])).toEqual([]), patience);
});

test("a directory is removed with all its content, and nothing outside of it", async () => {
  const { starter, dir } = await useStarter();
  const [job, cache] = [join(dir, "job"), join(dir, "cache")];
  await mkdir(join(job, "base/0"), { recursive: true });
  await mkdir(cache);
  await writeFile(join(cache, "kept"), "");
  await symlink(cache, join(job, "base/0/cache"));
  await starter.removeDirectory(job);
  await starter.removeDirectory(job);
  expect(await readdir(dir)).not.toContain("job");
  expect(await readdir(cache)).toEqual(["kept"]);
});

test("a directory is removed, also if the starter is killed before it has removed it", async () => {
  const { starter, dir, run } = await useStarter();
  const job = join(dir, "job");
  await mkdir(job);
  await run("true");
  const pid = starterOf(process.pid);
  process.kill(pid, "SIGSTOP"); // it receives the order and does not carry it out
  const removed = starter.removeDirectory(job);
  process.kill(pid, "SIGKILL");
  await removed;
  expect(await readdir(dir)).not.toContain("job");
});
