/** Runs `controller run`: kluctl's own, beside ours or instead of it, and ours with the same options. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { kluctlEnvironment } from "./kluctl-beside.ts";
import { type TestWorld, uniqueName } from "./world.ts";

/** Starts kluctl's own controller for the namespace of this test; returns a function that stops it. */
export function useController(world: TestWorld, options: Record<string, string> = {}): () => Promise<void> {
  return run(world, [world.kluctl], kluctlEnvironment(world), options);
}

/** Creates the namespace file that every pod has: without it, kluctl's controller refuses leader election. */
const asInPod = `
mount -t tmpfs none "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io/serviceaccount
printf %s "$1" > /var/run/secrets/kubernetes.io/serviceaccount/namespace
shift; exec "$@"`;

/** Whether this process may create a mount namespace; in some containers it may not. */
export function canSeemInPod(): boolean {
  return spawnSync("unshare", ["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;
}

/** Starts it so that it detects a pod of the test's namespace. */
export function useControllerInPod(world: TestWorld, options: Record<string, string> = {}): () => Promise<void> {
  const { namespace } = world.cluster;
  const command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", asInPod, "pod", namespace, world.kluctl];
  return run(world, command, kluctlEnvironment(world), options);
}

/** Starts ours with the same options. */
export function useOwnController(world: TestWorld, options: Record<string, string> = {}): () => Promise<void> {
  const { redis, kluctl, kluctlCache, dir } = world;
  const env = {
    ...kluctlEnvironment(world),
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
    TOWLINE_REDIS_URL: redis.url,
    TOWLINE_REDIS_PREFIX: redis.prefix,
    TOWLINE_KLUCTL: kluctl,
    TOWLINE_KLUCTL_CACHE_DIR: kluctlCache,
    TOWLINE_WEBHOOKS_PORT: "0",
    TOWLINE_DATA_DIR: join(dir, uniqueName("data")),
  };
  return run(world, [process.execPath, join(import.meta.dirname, "../../src/cli.ts")], env, options);
}

function run(
  world: TestWorld,
  [command = "", ...first]: readonly string[],
  env: NodeJS.ProcessEnv,
  more: Record<string, string> = {},
): () => Promise<void> {
  const { cluster, dir } = world;
  const { kubeconfig, namespace } = cluster;
  const options = {
    kubeconfig,
    namespace,
    // A namespace of its own for results: it deletes results of deployments that it does not see, and it watches only
    // one namespace.
    "command-result-namespace": namespace,
    "controller-namespace": namespace,
    "metrics-bind-address": "0",
    "health-probe-bind-address": "0",
    "source-override-bind-address": "0",
    ...more,
  };
  const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  const log = openSync(join(dir, "controller.log"), "a");
  const child = spawn(command, [...first, "controller", "run", "--no-update-check", ...args], {
    env,
    cwd: dir,
    stdio: ["ignore", log, log],
  });
  const ended = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  onTestFinished(stop);
  return stop;
}
