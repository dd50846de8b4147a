/**
 * Finds the files and directories outside of a project's directory that its files name, such as `../../base`, so that a push
 * or a pull request that changes one of them affects the project at once. Only a hint: what templates put together is not
 * found, and the sweep finds such a push.
 */
import { lstat, readdir, readFile, realpath } from "node:fs/promises";
import { join, posix } from "node:path";
import { setImmediate } from "node:timers/promises";

/** Longer lists, and more files, would cost more than they save. */
const [mostReads, mostFiles, mostBytes] = [50, 5_000, 16 * 1024 * 1024];
const largestFile = 1024 * 1024;
const longestPath = 300;

/** Different words of each file, all files together. */
const mostTried = 2_000;

/**
 * Relative to the repository's root, sorted, without those that another one contains. Empty for a project at the root. A
 * project that is too large, or does not exist, counts as naming nothing.
 */
export async function findOutsideReads(root: string, path: string, signal?: AbortSignal): Promise<readonly string[]> {
  if (path === "") return [];
  const named = new Set<string>();
  let words = 0;
  for (const { directory, text } of await readAll(root, path, signal)) {
    await setImmediate();
    signal?.throwIfAborted();
    const own = wordsWithParents(text);
    words += own.size;
    if (words > mostTried) return [];
    for (const word of own) {
      // kluctl resolves some paths from the file, and others from the project.
      for (const from of [directory, path]) {
        const to = posix.join(from, word).replace(/\/$/, "");
        if (isOutside(to, path)) named.add(to);
      }
    }
  }
  const found: string[] = [];
  for (const place of named) if (await isThere(root, place)) found.push(place);
  if (found.length > mostReads) return [];
  return found.filter((one) => !found.some((other) => one.startsWith(`${other}/`))).toSorted();
}

/** What looks like a path with a parent directory in it. In linear time: the text may be anybody's. */
function wordsWithParents(text: string): Set<string> {
  if (!text.includes("..")) return new Set();
  const words = text.split(/[^\w./-]+/).filter((word) => word.length <= longestPath && word.includes(".."));
  return new Set(words.filter((word) => word.split("/").includes("..")));
}

/** Within the repository, neither in the project nor above it: what is above is everything. */
function isOutside(to: string, path: string): boolean {
  if (to === "." || to === ".." || to.startsWith("../") || to.startsWith("/") || to.length > longestPath) return false;
  return to !== path && !to.startsWith(`${path}/`) && !path.startsWith(`${to}/`);
}

interface FileText {
  /** Relative to the root. */
  readonly directory: string;
  readonly text: string;
}

async function readAll(root: string, path: string, signal: AbortSignal | undefined): Promise<FileText[]> {
  const texts: FileText[] = [];
  const directories = [path];
  let [files, bytes] = [0, 0];
  for (let directory = directories.pop(); directory !== undefined; directory = directories.pop()) {
    signal?.throwIfAborted();
    const entries = await readdir(join(root, directory), { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      const name = posix.join(directory, entry.name);
      if (entry.isDirectory() && entry.name !== ".git" && name.length <= longestPath) directories.push(name);
      if (!entry.isFile()) continue;
      const { size } = await lstat(join(root, name));
      files++;
      bytes += size;
      if (files > mostFiles || bytes > mostBytes) return [];
      if (size <= largestFile) texts.push({ directory, text: await readFile(join(root, name), "latin1") });
    }
  }
  return texts;
}

/** A link may lead out of the repository: what is there is nobody's business. */
async function isThere(root: string, place: string): Promise<boolean> {
  const [real, top] = await Promise.all([realpath(join(root, place)).catch(() => undefined), realpath(root)]);
  return real?.startsWith(`${top}/`) === true;
}
