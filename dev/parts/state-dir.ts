import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface StateDir {
  readonly path: string;
  remove(): Promise<void>;
}

/**
 * Waits until the other end of descriptor 3 is closed. Parts that are being killed at that moment may still write, so
 * it retries.
 */
const janitor = `read -r _ <&3; n=0; while [ -e "$1" ] && [ "$n" -lt 50 ]; do rm -rf -- "$1" 2>/dev/null || sleep 0.1; n=$((n+1)); done`;

/** Creates one directory for everything that a run writes. It is removed with the run, even if the run is killed. */
export async function createStateDir(parent: string = tmpdir()): Promise<StateDir> {
  await mkdir(parent, { recursive: true });
  const path = await mkdtemp(join(parent, "towline-"));
  const child = spawn("/bin/sh", ["-c", janitor, "janitor", path], {
    detached: true,
    stdio: ["ignore", "ignore", "ignore", "pipe"],
  });
  child.unref();
  const hold = child.stdio[3];
  hold?.on("error", () => undefined);
  return {
    path,
    async remove() {
      await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
      hold?.destroy();
    },
  };
}
