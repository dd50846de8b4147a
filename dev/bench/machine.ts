/** The machine that the figures were measured on, without which they mean nothing. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { promisify } from "node:util";
import type { ToolPaths } from "../tools.ts";

export type Machine = readonly (readonly [what: string, is: string])[];

const run = promisify(execFile);

export async function describeMachine(
  tools: Pick<ToolPaths, "kluctl" | "kube-apiserver" | "redis-server">,
  others: number,
): Promise<Machine> {
  const version = async (command: string, ...args: string[]) => {
    const { stdout } = await run(command, args, { timeout: 10_000 });
    return /\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? stdout.trim();
  };
  const osRelease = await readFile("/etc/os-release", "utf8").catch(() => "");
  const system = /^PRETTY_NAME="?([^"\n]+)/m.exec(osRelease)?.[1] ?? "Linux";
  return [
    ["date", new Date().toISOString().slice(0, 10)],
    ["CPU", `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores`],
    ["memory", `${Math.round(totalmem() / 1024 ** 3)} GB`],
    ["otherwise", `unrelated processes used ${others.toFixed(2)} cores on average`],
    ["system", `${system}, Linux ${release()}`],
    ["node", process.versions.node],
    ["kluctl", await version(tools.kluctl, "version", "--no-update-check")],
    ["Redis", await version(tools["redis-server"], "--version")],
    ["Kubernetes", await version(tools["kube-apiserver"], "--version")],
    ["git", await version("git", "--version")],
  ];
}
