/**
 * kluctl's Python, unpacked beforehand, as an image has it. It is read where it lies and never written: kluctl finds it
 * through links. What kluctl compares is each file's size, so one of another version finds nothing of its own there and
 * unpacks it beside the links.
 */
import { readdir, stat, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";

/** As below the cache directory: since 2.23, and up to 2.22. */
const places = ["python", "tmp"];

/** Both are laid out as a cache directory. The places in the cache are there. */
export async function linkUnpacked(unpackedDir: string, cacheDir: string): Promise<void> {
  for (const place of places) {
    await removeDangling(join(cacheDir, place));
    for (const entry of await list(join(unpackedDir, place))) {
      if (!entry.isDirectory()) continue; // what kluctl locks, it makes in the cache
      const path = join(cacheDir, place, entry.name);
      await symlink(join(unpackedDir, place, entry.name), path).catch(unless("EEXIST"));
    }
  }
}

/** A cache may be kept while the image is exchanged for one that has something else unpacked. */
async function removeDangling(dir: string): Promise<void> {
  for (const entry of await list(dir)) {
    const path = join(dir, entry.name);
    if (!entry.isSymbolicLink() || (await stat(path).catch(unless("ENOENT")))) continue;
    await unlink(path).catch(unless("ENOENT"));
  }
}

/** Nothing, if it is not there: then kluctl unpacks, which is slow and right. */
async function list(dir: string) {
  return (await readdir(dir, { withFileTypes: true }).catch(unless("ENOENT"))) ?? [];
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
