/** kluctl's own command line, as people ask a server with it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import type { TestWorld } from "./world.ts";

export interface GitopsEnd {
  readonly code: number | null;
  /** The result. */
  readonly stdout: string;
  /** Everything else that it says. */
  readonly stderr: string;
}

interface GitopsOptions {
  /** Where it is called; outside any repository if left out. */
  readonly cwd?: string;
  /** What is typed when it asks. */
  readonly typed?: string;
}

/** `kluctl gitops …` in the namespace of this test; resolves when it ends, however it does. */
export async function gitops(
  world: Pick<TestWorld, "kluctl" | "dir" | "kluctlCache" | "cluster">,
  [command, ...args]: readonly [command: string, ...args: string[]],
  { cwd = world.dir, typed = "" }: GitopsOptions = {},
): Promise<GitopsEnd> {
  const { kluctl, cluster } = world;
  const all = ["gitops", command, "--no-update-check", "--no-color", "--namespace", cluster.namespace, ...args];
  const child = spawn(kluctl, all, { env: kluctlEnvironment(world), cwd, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL")); // it waits without end for an answer
  child.stdin.on("error", () => undefined); // it may end without having read anything
  child.stdin.end(typed);
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (text: string) => (said[stream] += text));
  }
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...said };
}
