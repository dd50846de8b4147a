/** kluctl's own command line, as users call it against a server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import type { TestWorld } from "./world.ts";

export interface GitopsEnd {
  readonly code: number | null;
  /** The result of the command. */
  readonly stdout: string;
  /** All other output. */
  readonly stderr: string;
}

interface GitopsOptions {
  /** Working directory; outside of any repository if absent. */
  readonly cwd?: string;
  /** Typed when the command prompts. */
  readonly typed?: string;
}

/** Runs `kluctl gitops …` in the namespace of this test; resolves when it exits, with any exit code. */
export async function gitops(
  world: Pick<TestWorld, "kluctl" | "dir" | "kluctlCache" | "cluster">,
  [command, ...args]: readonly [command: string, ...args: string[]],
  { cwd = world.dir, typed = "" }: GitopsOptions = {},
): Promise<GitopsEnd> {
  const { kluctl, cluster } = world;
  const all = ["gitops", command, "--no-update-check", "--no-color", "--namespace", cluster.namespace, ...args];
  const child = spawn(kluctl, all, { env: kluctlEnvironment(world), cwd, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL")); // it waits for an answer without a time limit
  child.stdin.on("error", () => undefined); // it may exit without having read anything
  child.stdin.end(typed);
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (text: string) => (said[stream] += text));
  }
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...said };
}
