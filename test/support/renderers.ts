/** kluctl's renderers without kluctl: its own Python and libraries, started as kluctl does, cold and warm. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { glob, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { cacheDir } from "../../dev/cache.ts";
import { forkServer } from "../../src/kluctl/warm/fork-server.ts";
import { type RendererLimits, startForkServer } from "../../src/kluctl/warm/fork-server-process.ts";
import { createLayout } from "../../src/kluctl/warm/layout.ts";
import { removeDirectory } from "../../src/kit/work-directories.ts";
import { useKluctl, useTempDir } from "./world.ts";

export interface KluctlPython {
  /** TMPDIR of the kluctl that unpacked it. */
  readonly temporary: string;
  /** PYTHONHOME. */
  readonly home: string;
  readonly main: string;
  readonly libraries: string;
}

/** Unpacked once and kept, like kluctl itself does. */
export async function useKluctlPython(): Promise<KluctlPython> {
  const temporary = join(cacheDir(), "kluctl", "tmp");
  await unpack(await useKluctl(), temporary);
  const one = (pattern: string) => findOne(pattern, temporary);
  const extension = dirname(await one("*/ext/images_ext.py"));
  const jinja = dirname(await one("*/jinja2/__init__.py"));
  return {
    temporary,
    home: dirname(dirname(await one("*/bin/python3.10"))),
    main: await one("*/main.py"),
    libraries: `${dirname(extension)}:${dirname(jinja)}`,
  };
}

async function unpack(kluctl: string, temporary: string): Promise<void> {
  await mkdir(temporary, { recursive: true, mode: 0o700 });
  const project = await useTempDir();
  await writeFile(join(project, "deployment.yaml"), "deployments: []\n");
  const args = ["render", "--no-update-check", "--offline-kubernetes", `--project-dir=${project}`];
  const env = { PATH: process.env["PATH"], HOME: project, TMPDIR: temporary, KLUCTL_BASE_TMP_DIR: project };
  await promisify(execFile)(kluctl, [...args, `--render-output-dir=${join(project, "out")}`], { env, cwd: project });
}

async function findOne(pattern: string, cwd: string): Promise<string> {
  for await (const name of glob(pattern, { cwd })) return join(cwd, name);
  throw new Error(`There is no ${pattern} in ${cwd}.`);
}

/** The request of kluctl to a renderer. */
export function ask(templates: readonly string[], globals: Readonly<Record<string, unknown>> = {}): string {
  const extensions = ["jinja2.ext.loopcontrols", "go_jinja2.ext.kluctl", "go_jinja2.ext.time"];
  const opts = { extensions: [...extensions, "ext.images_ext.ImagesExtension"], globals };
  return `${JSON.stringify({ cmd: "render-strings", templates, opts })}\n`;
}

/** Gives a template access to Python's modules, as users can do: `{{ module("os").getpid() }}`. */
export const reach = `{% set module = cycler.__init__.__globals__["__builtins__"]["__import__"] %}`;

export interface Started {
  /** The process that kluctl would have started. */
  readonly process: ChildProcess;
  write(text: string): void;
  /** Closes its input and resolves when it has ended. */
  end(): Promise<Ended>;
}

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly status: number | NodeJS.Signals;
}

interface StartOptions {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  readonly args?: string[];
  /** Its input is a pipe, as under kluctl; Node's own are sockets. */
  readonly piped?: boolean;
}

export interface Renderers {
  readonly dir: string;
  /** Refusals of the fork server, in the order in which they came. */
  readonly refusals: string[];
  readonly failures: string[];
  readonly forkServerPid: number;
  start(how: "cold" | "warm", options?: StartOptions): Started;
  run(how: "cold" | "warm", input: string, env?: Record<string, string>): Promise<Ended>;
  stop(): Promise<void>;
}

const generous: RendererLimits = { rendererBytes: 4 * 1024 ** 3, rendererSeconds: 3_600 };

export async function useRenderers(limits: Partial<RendererLimits> = {}, light?: boolean): Promise<Renderers> {
  const [python, dir] = await Promise.all([useKluctlPython(), useTempDir()]);
  const [socket, script] = [join(dir, "socket"), join(dir, "fork-server.py")];
  const unpacked = { temporary: python.temporary, python: dir, copies: dirname(python.temporary) };
  await writeFile(script, forkServer);
  const createCopy = () => mkdtemp(join(dirname(python.temporary), "warm-"));
  const layout = await createLayout({ version: "2.22.1", unpacked, dir, createCopy, socket, searchPath: "", light });
  onTestFinished(() => removeDirectory(dirname(layout.home ?? "")));
  const home = layout.home ?? "";
  const refusals: string[] = [];
  const failures: string[] = [];
  const server = await startForkServer({
    python: layout.python,
    script,
    socket,
    env: { PATH: process.env["PATH"] ?? "", PYTHONHOME: home },
    cwd: dir,
    limits: { ...generous, ...limits },
    onRefused: (why) => refusals.push(why),
    onEnded: (error) => failures.push(error.message),
  });
  onTestFinished(() => server.stop());

  const start: Renderers["start"] = (how, { env, cwd = dir, args = [python.main], piped = false } = {}) => {
    // The same environment for both: only the program at the path differs.
    const command = join(how === "warm" ? home : python.home, "bin/python3");
    const [file, ...rest] = piped ? ["/bin/sh", "-c", 'cat | "$0" "$@"', command, ...args] : [command, ...args];
    const child = spawn(file, rest, {
      cwd,
      env: { PATH: process.env["PATH"], PYTHONHOME: home, PYTHONPATH: python.libraries, ...env },
      stdio: "pipe",
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    child.stdin.on("error", () => undefined); // it ended before it had read everything
    const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
    return {
      process: child,
      write: (input) => void child.stdin.write(input),
      async end() {
        child.stdin.end();
        const [stdout, stderr, [code, signal]] = await ended;
        return { stdout, stderr, status: (code ?? signal) as Ended["status"] };
      },
    };
  };
  return {
    dir,
    refusals,
    failures,
    forkServerPid: server.pid,
    start,
    async run(how, input, env = {}) {
      const started = start(how, { env });
      started.write(input);
      return started.end();
    },
    stop: () => server.stop(),
  };
}
