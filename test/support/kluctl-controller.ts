/** kluctl's own controller, beside us or in our place. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import type { TestWorld } from "./world.ts";

/** Runs it for the namespace of this test; returns how to stop it. */
export function useController(world: TestWorld): () => Promise<void> {
  const { cluster, kluctl, dir } = world;
  const args = ["controller", "run", "--no-update-check", "--kubeconfig", cluster.kubeconfig];
  const ports = ["metrics", "health-probe", "source-override"].map((name) => `--${name}-bind-address=0`);
  // Results of its own: it removes those of deployments that it does not see, and it sees one namespace only.
  const namespaces = ["--namespace", cluster.namespace, "--command-result-namespace", cluster.namespace];
  const env = kluctlEnvironment(world);
  const child = spawn(kluctl, [...args, ...ports, ...namespaces], { env, cwd: dir, stdio: "ignore" });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  onTestFinished(stop);
  return stop;
}
