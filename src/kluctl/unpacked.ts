/**
 * kluctl's Python unpacked in advance, as in an image. It is used in place, through links, and never written to. kluctl
 * checks the size of each file, so another version does not find its own files there and unpacks them next to the
 * links.
 */
import { readdir, stat, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";

/** Subdirectories of the cache directory: since 2.23, and up to 2.22. */
const places = ["python", "tmp"];

/**
 * Links the unpacked directories into the cache. `unpackedDir` has the same layout as a cache directory; the
 * subdirectories of the cache must exist.
 */
export async function linkUnpacked(unpackedDir: string, cacheDir: string): Promise<void> {
  for (const place of places) {
    await removeDangling(join(cacheDir, place));
    for (const entry of await list(join(unpackedDir, place))) {
      if (!entry.isDirectory()) continue; // skip lock files; kluctl creates its own in the cache
      const path = join(cacheDir, place, entry.name);
      await symlink(join(unpackedDir, place, entry.name), path).catch(unless("EEXIST"));
    }
  }
}

/** A cache may outlive the image: a newer image may have other directories unpacked. */
async function removeDangling(dir: string): Promise<void> {
  for (const entry of await list(dir)) {
    const path = join(dir, entry.name);
    if (!entry.isSymbolicLink() || (await stat(path).catch(unless("ENOENT")))) continue;
    await unlink(path).catch(unless("ENOENT"));
  }
}

/** Empty if the directory does not exist: then kluctl unpacks by itself, which is slow but correct. */
async function list(dir: string) {
  return (await readdir(dir, { withFileTypes: true }).catch(unless("ENOENT"))) ?? [];
}

function unless(code: string): (error: NodeJS.ErrnoException) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
