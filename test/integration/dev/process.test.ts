import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { startProcess } from "../../../dev/parts/process.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

test("when the parent process is killed, its part and that part's children end, and its state directory is removed", async () => {
  const parent = await startParent(`
    const state = await createStateDir(dir);
    const args = ["-c", "sleep 600 & echo $! > pid; wait"];
    const part = await startProcess({ name: "part", command: "sh", args, logFile: dir + "/log", cwd: state.path });
    await part.ready(async () => (await readFile(state.path + "/pid", "utf8")).endsWith("\\n"));
    console.log(part.pid + " " + (await readFile(state.path + "/pid", "utf8")).trim() + " " + state.path);`);
  const [part = "", grandchild = "", state = ""] = parent.line.split(" ");
  expect([isAlive(part), isAlive(grandchild)]).toEqual([true, true]);

  parent.kill();

  await expect.poll(() => [isAlive(part), isAlive(grandchild)], patience).toEqual([false, false]);
  await expect.poll(() => exists(state), patience).toBe(false);
});

test("a part that exits instead of starting is reported with the end of its log", async () => {
  const dir = await useTempDir();
  const args = ["-c", "echo the port is taken; exit 3"];
  const part = await startProcess({ name: "part", command: "sh", args, logFile: join(dir, "log") });

  await expect(part.ready(() => Promise.resolve(false))).rejects.toThrow(
    /part did not start: exit status 3\..*the port is taken/s,
  );
});

test("a part that ignores SIGTERM is killed after the grace period", async () => {
  const dir = await useTempDir();
  const args = ["-c", "trap '' TERM; echo > ready; while :; do sleep 0.1; done"];
  const part = await startProcess({ name: "part", command: "sh", args, logFile: join(dir, "log"), cwd: dir });
  await part.ready(() => exists(join(dir, "ready")));

  await part.stop(200);

  expect(await part.exited).toEqual({ ok: false, reason: "ended by SIGKILL" });
  await expect.poll(() => isAlive(String(part.pid)), patience).toBe(false);
});

/** A separate Node process that runs the script until it is killed; resolves with its first line of output. */
async function startParent(script: string): Promise<{ line: string; kill(): void }> {
  const parts = join(import.meta.dirname, "../../../dev/parts");
  const imports = `
    import { readFile } from "node:fs/promises";
    import { startProcess } from "${parts}/process.ts";
    import { createStateDir } from "${parts}/state-dir.ts";
    const dir = ${JSON.stringify(await useTempDir())};`;
  const args = ["--input-type=module", "-e", `${imports}${script}\nsetInterval(() => undefined, 1_000);`];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const kill = () => void child.kill("SIGKILL");
  onTestFinished(kill);
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return { line, kill };
}

function isAlive(pid: string): boolean {
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch {
    return false;
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
