/** A preview runner as a separate process, with only the environment that it needs. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { killGroup } from "../../src/kluctl/watched.ts";
import type { TowlinePod } from "./towline-pod.ts";
import type { LogLine } from "./towline.ts";
import type { TestWorld } from "./world.ts";

export interface RunnerProcess {
  readonly port: number;
  readonly child: ChildProcess;
  readonly dataDir: string;
  readonly lines: readonly LogLine[];
  /** Resolves with the exit code or the signal. */
  readonly ended: Promise<number | NodeJS.Signals>;
}

export const runnerToken = "a-token-of-the-preview-runner-for-tests";

/** The variables of a server that renders its previews in this runner. */
export function runnerVariables(port: number, token = runnerToken): Record<string, string> {
  return { TOWLINE_PREVIEW_RUNNER_ADDRESS: `127.0.0.1:${port}`, TOWLINE_PREVIEW_RUNNER_TOKEN: token };
}

/**
 * Resolves when it listens; `port` 0 takes any. In a pod it has the limits of the chart, and only SIGKILL reaches it.
 */
export async function useRunner(
  { dir, kluctl, kluctlCache }: TestWorld,
  { port = 0, pod }: { port?: number; pod?: TowlinePod } = {},
): Promise<RunnerProcess> {
  const dataDir = join(pod?.pod.data ?? dir, `runner-${randomUUID().slice(0, 8)}`);
  const tokenFile = pod ? await pod.write("runner-token", runnerToken) : join(dir, "runner-token");
  if (!pod) await writeFile(tokenFile, runnerToken, { mode: 0o600 });
  const env = {
    PATH: "/usr/bin:/bin",
    TOWLINE_LOG_FORMAT: "json",
    TOWLINE_PREVIEW_ISOLATION: "auto",
    TOWLINE_PREVIEW_RUNNER_TOKEN_FILE: tokenFile,
    TOWLINE_PREVIEW_RUNNER_BIND_ADDRESS: `127.0.0.1:${port}`,
    TOWLINE_KLUCTL: pod?.kluctl ?? kluctl,
    ...(pod ? { TOWLINE_KLUCTL_UNPACKED_DIR: pod.unpackedDir } : { TOWLINE_KLUCTL_CACHE_DIR: kluctlCache }),
    TOWLINE_DATA_DIR: dataDir,
  };
  const { command, args } = pod?.node("src/cli.ts", "preview-runner") ?? {
    command: process.execPath,
    args: ["src/cli.ts", "preview-runner"],
  };
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const ended = once(child, "exit").then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  onTestFinished(async () => {
    // In a pod the runner is a child of `unshare` and outlives it: its user has changed, so it is not ended with its parent.
    killGroup(child.pid, "SIGKILL");
    await ended;
  });
  const lines: LogLine[] = [];
  const errors: string[] = [];
  createInterface(child.stderr).on("line", (line) => errors.push(line));
  const listening = new Promise<LogLine>((resolve) => {
    createInterface(child.stdout).on("line", (text) => {
      const line = JSON.parse(text) as LogLine;
      lines.push(line);
      if (line.msg === "listening") resolve(line);
    });
  });
  const failed = ended.then((code) => {
    throw new Error(`the preview runner ended with ${code}: ${[...lines.map((l) => l.msg), ...errors].join("\n")}`);
  });
  const { previews } = await Promise.race([listening, failed]);
  failed.catch(() => undefined);
  return { port: Number(previews), child, dataDir, lines, ended };
}
