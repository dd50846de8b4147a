/**
 * A separate disk for one server that can be filled up. Mounting one needs root and is not possible in every container.
 */
import { execFile } from "node:child_process";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

export interface SmallDisk {
  fill(on: boolean): Promise<void>;
  stop(): Promise<void>;
}

const run = promisify(execFile);
/** Several times the size of an episode's repositories. */
const size = "64m";

/** Returns `undefined` if it cannot be mounted: the directory is then an ordinary one. */
export async function createSmallDisk(dir: string): Promise<SmallDisk | undefined> {
  await mkdir(dir, { recursive: true });
  try {
    await run("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", dir]);
  } catch {
    return undefined;
  }
  const ballast = join(dir, "ballast");
  return {
    async fill(on) {
      if (!on) return rm(ballast, { force: true });
      const { bavail, bsize } = await statfs(dir);
      // Another process may have taken the remaining space meanwhile.
      await writeFile(ballast, Buffer.alloc(bavail * bsize)).catch(() => undefined);
    },
    async stop() {
      await run("umount", ["-l", dir]);
    },
  };
}
