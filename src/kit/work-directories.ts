/** Creates one directory per job. Directories of a process that no longer runs are removed by the next one. */
import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

export interface WorkDirectories {
  /** Creates a directory that only this user can read. */
  create(): Promise<string>;
  /** Removes the directories of crashed processes and returns their number. */
  sweep(): Promise<number>;
}

export function createWorkDirectories(parent: string): WorkDirectories {
  return {
    async create() {
      const make = () => mkdtemp(join(parent, `${process.pid}-`));
      return make().catch(async (error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
        await mkdir(parent, { recursive: true, mode: 0o700 });
        return make();
      });
    },
    async sweep() {
      let removed = 0;
      for (const name of await readdir(parent).catch(() => [])) {
        const path = join(parent, name);
        if (!(await isStale(name, path))) continue;
        await removeDirectory(path);
        removed++;
      }
      return removed;
    },
  };
}

/** Removes a directory; retries a few times, because a process may still be writing its last file. */
export async function removeDirectory(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 });
}

async function isStale(name: string, path: string): Promise<boolean> {
  const pid = /^\d+(?=-)/.exec(name)?.[0];
  if (pid === undefined) return false; // not ours
  if (Number(pid) !== process.pid) return !isAlive(Number(pid));
  // In a container, the previous process may have had the same id.
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
  return mtimeMs < performance.timeOrigin;
}

/** Also true for processes of other users. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
