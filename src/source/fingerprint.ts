/** What tells whether anything in a directory was written to: names, sizes and times, never contents. */
import { createHash } from "node:crypto";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

/** All but git's objects: those are shared with the mirror by hard links, which come and go. */
export async function fingerprint(root: string): Promise<string> {
  const hash = createHash("sha1");
  const directories = [""];
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    const entries = await readdir(join(root, directory), { withFileTypes: true });
    const lines = await Promise.all(
      entries.map(async (entry) => {
        const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
        if (path === ".git/objects") return undefined;
        if (entry.isDirectory()) {
          directories.push(path);
          return `${path}/`;
        }
        const { ino, mode, size, mtimeMs, ctimeMs } = await lstat(join(root, path));
        return [path, ino, mode, size, mtimeMs, ctimeMs].join("\0");
      }),
    );
    for (const line of lines.sort()) if (line !== undefined) hash.update(`${line}\n`);
    directories.sort();
  }
  return hash.digest("base64");
}
