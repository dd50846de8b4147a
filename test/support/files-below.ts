import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Every file and directory below a directory, as full paths. Entries that disappear while it is read (servers clean up)
 * are skipped.
 */
async function* entriesBelow(dir: string): AsyncGenerator<{ readonly path: string; readonly isFile: boolean }> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(orGone([]));
  for (const entry of entries) {
    const path = join(dir, entry.name);
    yield { path, isFile: entry.isFile() };
    if (entry.isDirectory()) yield* entriesBelow(path);
  }
}

export async function pathsBelow(dir: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of entriesBelow(dir)) paths.push(path);
  return paths;
}

/** The contents of all files below a directory by path, byte for byte as Latin-1. */
export async function textsBelow(dir: string): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for await (const { path, isFile } of entriesBelow(dir)) {
    if (isFile) texts.set(path, await readFile(path, "latin1").catch(orGone("")));
  }
  return texts;
}

function orGone<T>(instead: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code !== "ENOENT") throw error;
    return instead;
  };
}
