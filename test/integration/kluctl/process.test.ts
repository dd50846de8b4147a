import { readFile, writeFile } from "node:fs/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type ProcessSpec, runProcess } from "../../../src/kluctl/process.ts";
import { type StartWatched, startWatched } from "../../../src/kluctl/watched.ts";
import { monotonicNow } from "../../../src/kit/monotonic.ts";
import { startStarter } from "../../../src/starter/starter.ts";
import { isRunning } from "../../support/fake-kluctl.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

const limits = {
  ...{ timeoutMs: 10_000, graceMs: 100, silenceMs: 10_000 },
  ...{ keptBytes: 10_000, lineLength: 1_000, lines: 100 },
};

const run = (script: string, spec: Partial<ProcessSpec> = {}) =>
  runProcess({
    ...{ name: "it", command: "bash", args: ["-c", script], env: { PATH: process.env["PATH"] ?? "" }, cwd: "/" },
    ...{ limits, signal: new AbortController().signal },
    ...spec,
  });

async function useStarter(): Promise<StartWatched> {
  const starter = startStarter({ home: join(await useTempDir(), "home"), env: process.env });
  onTestFinished(() => starter.stop());
  return starter.startWatched;
}

describe.each([
  { by: "the server", useStart: () => Promise.resolve(startWatched) },
  { by: "the starter", useStart: useStarter },
])("started by $by", ({ useStart }) => {
  test("exit status and output are passed on", async () => {
    const start = await useStart();
    expect(await run("echo out; echo err >&2; exit 3", { start })).toEqual({
      exitCode: 3,
      stdout: "out\n",
      stderr: "err\n",
    });
    expect(await run("cat", { start })).toMatchObject({ exitCode: 0, stdout: "" }); // standard input is empty
  });

  test("a process leads its own group, cannot read heartbeats, writes private files, dumps no core and has a lower priority than the server", async () => {
    const start = await useStart();
    const { stdout } = await run(`ps -o pgid= -p $$; test -e /proc/$$/fd/3 || echo none; ulimit -c; umask; nice`, {
      start,
    });
    const [group, ...rest] = stdout.trim().split("\n");
    expect(Number(group)).not.toBe(process.pid);
    expect(rest).toEqual(["none", "0", "0077", "10"]);
  });

  test("a missing or non-executable command ends with the exit code of a shell", async () => {
    const start = await useStart();
    expect(await run("", { start, command: "/nowhere" })).toMatchObject({ exitCode: 127 });
    expect(await run("", { start, command: "/etc/passwd" })).toMatchObject({ exitCode: 126 });
  });

  test("a failed spawn is an error", async () => {
    const start = await useStart();
    await expect(run("", { start, cwd: "/nowhere" })).rejects.toThrow("ENOENT");
  });

  test("a process that left the group but holds our pipes does not delay the end", async () => {
    const start = await useStart();
    const cwd = await useTempDir();
    const left = `setsid sh -c 'echo $$ >pid; exec sleep 300' & until [ -s pid ]; do :; done`;
    const { stdout } = await run(`${left}; cat pid; exit 0`, { start, cwd });
    const pid = Number(stdout);
    expect(isRunning(pid)).toBe(true);
    process.kill(pid);
  });

  test("each line is passed on as it is written, and remaining processes end with the main one", async () => {
    const start = await useStart();
    const cwd = await useTempDir();
    const lines: string[] = [];
    const running = run(
      "echo begun >&2; until [ -e on ]; do sleep 0.02; done; sleep 300 & echo $! >pid; echo done >&2",
      {
        ...{ start, cwd },
        onLine: (line) => lines.push(line),
      },
    );
    await vi.waitFor(() => expect(lines).toEqual(["begun"]), patience);
    await writeFile(join(cwd, "on"), "");
    await running;
    expect(lines).toEqual(["begun", "done"]);
    // It has been killed, but the kernel may still be ending it.
    const remaining = Number(await readFile(join(cwd, "pid"), "utf8"));
    await vi.waitFor(() => expect(isRunning(remaining)).toBe(false), patience);
  });

  test("heartbeats count from the renewal they stand for: late ones neither keep a process alive nor start one", async () => {
    const start = await useStart();
    const cwd = await useTempDir();
    const lost = new AbortController().signal;
    /** A lease that repeats one renewal, like a server whose messages arrive late. */
    const renewed = (at: number) => ({
      lost,
      onRenewed(callback: (renewedAt: number) => void) {
        callback(at);
        const timer = setInterval(callback, 50, at);
        return () => clearInterval(timer);
      },
    });
    const short = { ...limits, silenceMs: 5_000, timeoutMs: 60_000 };
    const spec = { start, cwd, limits: short };
    await expect(run("sleep 300", { ...spec, held: renewed(monotonicNow()) })).rejects.toMatchObject({ why: "signal" });
    await expect(run("touch started", { ...spec, held: renewed(monotonicNow() - 5_001) })).rejects.toThrow(
      "not started",
    );
    expect(await run("ls", { cwd })).toMatchObject({ stdout: "" });
  });

  test("an aborted process is ended, and killed if it ignores SIGTERM", async () => {
    const start = await useStart();
    const aborted = new AbortController();
    const running = run("trap '' TERM; echo begun >&2; while :; do sleep 0.02; done", {
      ...{ start, signal: aborted.signal },
      onLine: () => aborted.abort(),
    });
    await expect(running).rejects.toMatchObject({ why: "stopped" });
  });
});

test("an abort before the start prevents the start", async () => {
  const dir = await useTempDir();
  await expect(run("touch started", { cwd: dir, signal: AbortSignal.abort() })).rejects.toMatchObject({
    why: "stopped",
  });
  expect(await run("ls", { cwd: dir })).toMatchObject({ stdout: "" });
});

test("under a lease, a process starts only after the lease was renewed", async () => {
  const dir = await useTempDir();
  const callbacks = new Set<(renewedAt: number) => void>();
  const onRenewed = (callback: (renewedAt: number) => void) => {
    callbacks.add(callback);
    return () => callbacks.delete(callback);
  };
  const held = { lost: new AbortController().signal, onRenewed };
  const running = run("touch started", { cwd: dir, held });
  await vi.waitFor(() => expect(callbacks.size).toBe(1), patience);
  expect(await run("ls", { cwd: dir })).toMatchObject({ stdout: "" });
  for (const callback of callbacks) callback(monotonicNow());
  await running;
  expect(await run("ls", { cwd: dir })).toMatchObject({ stdout: "started\n" });
  expect(callbacks.size).toBe(0);

  const aborted = new AbortController();
  const waiting = run("touch more", { cwd: dir, held, signal: aborted.signal });
  aborted.abort();
  await expect(waiting).rejects.toMatchObject({ why: "stopped" });
});

test("finished runs are not kept in memory by the signal that stops the server", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const stopping = new AbortController();
  const told: WeakRef<(renewedAt: number) => void>[] = [];
  const onRenewed = (callback: (renewedAt: number) => void) => {
    told.push(new WeakRef(callback));
    queueMicrotask(() => callback(monotonicNow()));
    return () => undefined;
  };
  const held = () => ({ lost: new AbortController().signal, onRenewed });
  for (let i = 0; i < 3; i++) {
    const signal = AbortSignal.any([new AbortController().signal, stopping.signal]);
    await run("true", { signal, held: held() });
  }

  await vi.waitFor(() => {
    collectGarbage();
    expect(told.filter((callback) => callback.deref() !== undefined)).toEqual([]);
  }, patience);
  expect(stopping.signal.aborted).toBe(false);
});
