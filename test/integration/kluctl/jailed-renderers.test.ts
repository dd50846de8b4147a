/** Individual renderers of previews, as kluctl starts them: which run they belong to, and when they end. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { createJailedRenderers, type JailedPlace } from "../../../src/kluctl/warm/jailed-renderers.ts";
import { collectLogs, isRunning, type Logged } from "../../support/fake-kluctl.ts";
import { patience } from "../../support/patience.ts";
import { ask, reach, useKluctlPython } from "../../support/renderers.ts";
import { useTempDir } from "../../support/world.ts";

const gibibyte = 1024 ** 3;

/**
 * A fork server that imported its libraries through links that no longer exist, because every run of kluctl has its
 * own; and two runs, each with a file that the other may not read.
 */
async function useRuns() {
  const [python, dir] = await Promise.all([useKluctlPython(), useTempDir()]);
  const { log, lines } = collectLogs();
  const renderers = createJailedRenderers({
    unpacked: { temporary: python.temporary, python: dir, copies: join(dir, "copies") },
    workDir: join(dir, "work"),
    searchPath: "/usr/bin:/bin",
    env: {},
    limits: { rendererBytes: gibibyte, rendererSeconds: 60 },
    jail: { limits: { data: gibibyte / 2, files: 64, fileSize: 0, cpu: 60 }, files: true },
    warm: true,
    log,
  });
  onTestFinished(() => renderers.stop());
  const place = await renderers.open({ path: "kluctl", file: "kluctl", version: "2.22.1" });
  const createRun = async (name: string) => {
    const slot = join(dir, name);
    await mkdir(slot);
    await writeFile(join(slot, "file"), `of ${name}`);
    return { slot, ...(await place.admit([slot])) };
  };
  const [a, b] = [await createRun("a"), await createRun("b")];

  /** Starts what kluctl would start, with this environment. */
  const start = (env: Readonly<Record<string, string>>) => {
    const home = join(place.ways.env["TMPDIR"] ?? "", basename(python.home));
    const child = spawn(join(home, "bin/python3"), [python.main], {
      cwd: "/",
      env: { PYTHONHOME: home, PYTHONPATH: python.libraries, ...place.ways.env, ...env },
      stdio: "pipe",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    child.stdin.on("error", () => undefined); // the renderer may exit before it has read everything
    const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return {
      process: child,
      render(template: string) {
        child.stdin.end(ask([template]));
        return ended.then(([stdout]) => (JSON.parse(stdout) as [{ result?: string; error?: string }])[0]);
      },
    };
  };
  const links = join(dir, "links");
  await mkdir(links);
  const linked = python.libraries.split(":").map(async (library, i) => {
    const link = join(links, String(i));
    await symlink(library, link);
    return link;
  });
  const first = start({ ...a.env, PYTHONPATH: (await Promise.all(linked)).join(":") });
  expect(await first.render("{{ 6 * 7 }}")).toEqual({ result: "42" });
  await rm(links, { recursive: true });
  return { place, a, b, start, lines, stop: () => renderers.stop() };
}

const read = (path: string) => `${reach}{{ module("builtins").open("${path}").read() }}`;
const howItStarted = `${reach}{{ module("sys").orig_argv | join(" ") }}`;

test("a renderer may only read files of its own run, whatever its environment says", async () => {
  const { a, b, start } = await useRuns();

  expect(await start(a.env).render(read(join(a.slot, "file")))).toEqual({ result: "of a" });
  expect(await start(b.env).render(read(join(b.slot, "file")))).toEqual({ result: "of b" });
  const other = await start({ ...a.env, TOWLINE_RENDERER_READS: "/" }).render(read(join(b.slot, "file")));
  expect(other.error).toContain("Permission denied");
});

test("a failing template reports the same error from a warm and a cold renderer", async () => {
  const { a, b, start } = await useRuns();
  const warm = start(a.env).render("{{ nobody.knows }}");
  const cold = start({ ...b.env, TOWLINE_RENDERER_PASS: "guessed" }).render("{{ nobody.knows }}");

  const expected = { error: expect.stringContaining("UndefinedError: 'nobody' is undefined") };
  expect(await cold).toEqual(expected);
  expect(await warm).toEqual(await cold);
});

test("without the pass of a running preview, the fork server provides no renderer", async () => {
  const { a, b, start, lines } = await useRuns();
  expect((await start(a.env).render(howItStarted)).result).toContain("fork-server");
  a.end();

  for (const env of [a.env, { ...b.env, TOWLINE_RENDERER_PASS: "guessed" }]) {
    const { result } = await start(env).render(howItStarted);
    expect(result).toBeDefined();
    expect(result).not.toContain("fork-server");
  }
  expect((await start(b.env).render(howItStarted)).result).toContain("fork-server");
  const refused = lines.filter(({ why }) => why === "the preview that it belongs to is over");
  expect(refused).toHaveLength(1);
});

test("the processes of a run's renderers are known as long as it lasts, also that of a template that sleeps", async () => {
  const { a, b, start } = await useRuns();
  const { result } = await start(b.env).render(`${reach}{{ module("os").getpid() }}`);
  expect(b.renderers()).toEqual([Number(result)]);
  start(a.env).process.stdin.write(ask([`${reach}{{ module("time").sleep(600) }}`]));
  const known = a.renderers().length;
  await expect.poll(() => a.renderers().length, patience).toBe(known + 1);
  expect(a.renderers()).not.toContain(Number(result));
  a.end();
  expect(a.renderers()).toEqual([]);
});

test("a renderer's memory contains neither the pass nor the files of another run", async () => {
  const { a, b, start } = await useRuns();
  const search = `${reach}{% set at = namespace(frame=module("sys")._getframe(), text="") %}
    {%- for _ in range(100) %}{% if at.frame %}
      {%- set at.text = at.text ~ at.frame.f_globals ~ at.frame.f_locals %}{% set at.frame = at.frame.f_back %}
    {%- endif %}{% endfor %}{{ at.text }}`;
  const { result = "" } = await start(a.env).render(search);

  expect(result).toContain(a.slot); // found in the server's own variables
  expect(result).not.toContain(b.slot);
  expect(result).not.toContain(b.env["TOWLINE_RENDERER_PASS"]);
});

test("a renderer that has closed all its file descriptors ends with its kluctl", async () => {
  const { a, start } = await useRuns();
  const started = start(a.env);
  started.process.stdin.write(ask([`${reach}{{ module("os").getpid() }}`]));
  const [line] = (await once(started.process.stdout, "data")) as [Buffer];
  const pid = Number((JSON.parse(line.toString()) as [{ result: string }])[0].result);
  const close = `${reach}{% set _ = module("os").closerange(0, 64) %}{% set _ = module("time").sleep(600) %}`;
  started.process.stdin.write(ask([close]));
  await vi.waitFor(async () => expect(await readdir(`/proc/${pid}/fd`)).toEqual([]), patience);

  started.process.kill("SIGKILL");

  await expect.poll(() => isRunning(pid), patience).toBe(false);
});

test("after the fork server is killed, the next place gets another one", async () => {
  const { place, a, start, lines } = await useRuns();
  expect(place.start()).toBe("warm");
  const pid = forkServerPid(lines);

  process.kill(pid, "SIGKILL");

  await expect.poll(() => place.start(), patience).toBe("gone");
  const { result } = await start(a.env).render(howItStarted);
  expect(result).toBeDefined();
  expect(result).not.toContain("fork-server");
});

test("a retired place is removed after its last run, including its fork server and files", async () => {
  const { place, a, b, start, lines } = await useRuns();
  const pid = forkServerPid(lines);
  place.retire();
  a.end();
  expect((await start(b.env).render(howItStarted)).result).toContain("fork-server");

  b.end();

  await expect.poll(() => isRunning(pid), patience).toBe(false);
  await expect.poll(() => isThere(place), patience).toBe(false);
});

function forkServerPid(lines: readonly Logged[]): number {
  return Number(lines.find(({ msg }) => msg === "preview renderers are kept warm")?.["pid"]);
}

async function isThere({ ways }: JailedPlace): Promise<boolean> {
  return stat(ways.env["TMPDIR"] ?? "").then(
    () => true,
    () => false,
  );
}
