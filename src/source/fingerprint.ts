/** What tells whether anything in a directory was written to: names, sizes and times, never contents. */
import { createHash } from "node:crypto";
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

/** So many are looked at, some tenths of a millisecond, before anybody else goes on. */
const atOnce = 100;

/**
 * All but git's objects: those are shared with the mirror by hard links, which come and go. What was just read or made is
 * known to the kernel, which answers in microseconds: to have other threads ask for each takes ten times the CPU.
 */
export async function fingerprint(root: string): Promise<string> {
  const hash = createHash("sha1");
  const directories = [""];
  let looked = 0;
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    const lines: string[] = [];
    for (const entry of readdirSync(join(root, directory), { withFileTypes: true })) {
      if (++looked % atOnce === 0) await setImmediate();
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (path === ".git/objects") continue;
      if (entry.isDirectory()) {
        directories.push(path);
        lines.push(`${path}/`);
        continue;
      }
      const { ino, mode, size, mtimeMs, ctimeMs } = lstatSync(join(root, path));
      lines.push([path, ino, mode, size, mtimeMs, ctimeMs].join("\0"));
    }
    for (const line of lines.sort()) hash.update(`${line}\n`);
    directories.sort();
  }
  return hash.digest("base64");
}
