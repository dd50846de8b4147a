/** Starts, watches and ends the fork server's process. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { within } from "../../kit/deadline.ts";
import { createLineReader, createTail, toPlainText } from "../output.ts";

export interface RendererLimits {
  /** Limit of a renderer's address space. */
  readonly rendererBytes: number;
  /** Limit of a renderer's CPU time. */
  readonly rendererSeconds: number;
}

export interface ForkServerOptions {
  readonly python: string;
  readonly script: string;
  readonly socket: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly limits: RendererLimits;
  /** Confines each renderer; renderers are unconfined if this is left out. */
  readonly jail?: string | undefined;
  /** Called when the fork server refused a renderer, which then started cold. */
  readonly onRefused: (why: string) => void;
  /** Called for each renderer of a preview, with the run that it belongs to. */
  readonly onRenderer?: ((run: string, pid: number) => void) | undefined;
  /** Called when the fork server ended without being stopped. */
  readonly onEnded: (error: Error) => void;
}

export interface ForkServer {
  readonly pid: number;
  /**
   * Announces a run of a preview before it begins (with `reads`) and after it has ended (without). Messages to a fork
   * server that has ended are lost.
   */
  send(run: { readonly run: string; readonly reads?: readonly string[] }): Promise<void>;
  stop(): Promise<void>;
}

const startMs = 30_000;
const graceMs = 2_000;

/** Resolves when the fork server listens. */
export async function startForkServer(options: ForkServerOptions): Promise<ForkServer> {
  const { python, script, socket, env, cwd, limits, onRefused, onRenderer, onEnded } = options;
  const args = [script, socket, String(limits.rendererBytes), String(limits.rendererSeconds)];
  if (options.jail !== undefined) args.push(options.jail);
  // In a process group of its own, so that Ctrl-C reaches only the server, which ends this process when kluctl no
  // longer needs it.
  const child = spawn(python, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const { promise: listens, resolve: listening } = Promise.withResolvers<void>();
  const words = createTail(2_000);
  const lines = createLineReader({ lineLength: 500, lines: Infinity }, (line) => {
    const [, run = "", pid] = /^renders (\w+) (\d+)$/.exec(line) ?? [];
    if (line === "listening") listening();
    else if (pid !== undefined) onRenderer?.(run, Number(pid));
    else onRefused(line.replace(/^cold /, ""));
  });
  child.stdout.on("data", lines.push);
  child.stderr.on("data", words.push);
  for (const stream of child.stdio) stream?.on("error", () => undefined); // `ended` reports the failure
  const ended = failureOf(child, () => words.text());

  const stop = async (): Promise<void> => {
    child.stdin.end();
    await within(graceMs, ended, () => undefined, { ref: false });
    child.kill("SIGKILL");
    await ended;
  };
  const late = () => new Error("does not listen");
  const early = await within(startMs, Promise.race([listens, ended]), late, { ref: false });
  if (early) {
    await stop();
    throw new Error(`the fork server ${early.message}`);
  }
  let stopping = false;
  void ended.then((error) => {
    if (!stopping) onEnded(new Error(`the fork server ${error.message}`));
  });
  return {
    pid: child.pid ?? 0, // it listens, so it has a pid
    send: (run) => new Promise((resolve) => child.stdin.write(`${JSON.stringify(run)}\n`, () => resolve())),
    async stop() {
      stopping = true;
      await stop();
    },
  };
}

/** Resolves when the process has ended, to an error that says how. */
async function failureOf(child: ChildProcess, words: () => string): Promise<Error> {
  try {
    const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
    const last = toPlainText(words()).trim().split("\n").at(-1) ?? "";
    return new Error(`ended with ${signal ?? `exit status ${code}`}${last === "" ? "" : `: ${last}`}`);
  } catch (error) {
    return new Error(`cannot be started: ${(error as Error).message}`);
  }
}
