/** A disk of a server's own, which can be full. Only root can mount one, and not in every container. */
import { execFile } from "node:child_process";
import { mkdir, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

export interface SmallDisk {
  fill(on: boolean): Promise<void>;
  stop(): Promise<void>;
}

const run = promisify(execFile);
/** Several times what an episode's repositories take. */
const size = "64m";

/** `undefined` where it cannot be had: then the directory is one like any other. */
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
      // Whoever writes meanwhile may have taken the rest.
      await writeFile(ballast, Buffer.alloc(bavail * bsize)).catch(() => undefined);
    },
    async stop() {
      await run("umount", ["-l", dir]);
    },
  };
}
