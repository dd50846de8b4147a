/**
 * Ends a run that fills the disk. The kernel can limit the size of each file that a process writes, but not their
 * total.
 */
import { opendir, lstat } from "node:fs/promises";
import { join } from "node:path";

export interface Room {
  /** Aborts when a limit is exceeded. */
  readonly signal: AbortSignal;
  stop(): void;
}

/** Most runs end before the first check. */
const everyMs = 500;

export function watchRoom(dir: string, most: { readonly bytes: number; readonly files: number }): Room {
  const overfull = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const later = (): void => {
    if (!stopped) timer = setTimeout(() => void look(), everyMs);
  };
  async function look(): Promise<void> {
    const used = { bytes: 0, files: 0 };
    await add(dir, used, most).catch(() => undefined); // files that are removed meanwhile do not count
    if (used.bytes > most.bytes || used.files > most.files) {
      overfull.abort(new Error(`it wrote more than ${Math.round(most.bytes / 1024 ** 2)} MiB or ${most.files} files`));
    } else {
      later();
    }
  }
  later();
  return {
    signal: overfull.signal,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** Stops counting as soon as a limit is exceeded. */
async function add(dir: string, used: { bytes: number; files: number }, most: { bytes: number; files: number }) {
  for await (const entry of await opendir(dir)) {
    if (++used.files > most.files || used.bytes > most.bytes) return;
    const path = join(dir, entry.name);
    if (entry.isDirectory()) await add(path, used, most).catch(() => undefined);
    else if (entry.isFile()) used.bytes += (await lstat(path).catch(() => ({ blocks: 0 }))).blocks * 512;
  }
}
