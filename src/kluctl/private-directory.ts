import { constants, type Stats } from "node:fs";
import { access, chmod, mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { KluctlUnavailableError } from "../errors.ts";

const allowed = constants.R_OK | constants.W_OK | constants.X_OK;

/**
 * Creates a directory that only the server's user can read; an existing one is left unchanged. Throws
 * KluctlUnavailableError if the directory cannot be used: a process started in it would only report that the program
 * does not exist or may not be run.
 */
export async function makePrivate(path: string): Promise<void> {
  try {
    if (await canUse(path)) return; // almost always
    if ((await mkdir(path, { recursive: true, mode: 0o700 })) !== undefined) await chmod(path, 0o700);
    await access(path, allowed);
  } catch (error) {
    const why = await whyNot(path, error as NodeJS.ErrnoException);
    if (why === undefined) throw error;
    const directories = "TOWLINE_DATA_DIR or TOWLINE_KLUCTL_CACHE_DIR";
    throw new KluctlUnavailableError(
      `kluctl cannot work in ${path}: ${why}, or move the server's directories with ${directories}.`,
      { cause: error },
    );
  }
}

async function canUse(path: string): Promise<boolean> {
  return access(`${path}/`, allowed).then(
    () => true,
    () => false,
  );
}

/** Explains what is wrong with the directory, or with its nearest existing ancestor, and what to do. */
async function whyNot(path: string, error: NodeJS.ErrnoException): Promise<string | undefined> {
  const { code = "" } = error;
  if (code === "EROFS") return "its file system is read-only. Mount it writable";
  if (!["EACCES", "EPERM", "EEXIST", "ENOTDIR"].includes(code)) return undefined;
  const found = await nearest(path);
  if (!found.info.isDirectory()) return `${found.path} is not a directory. Remove it`;
  const mode = (found.info.mode & 0o7777).toString(8).padStart(4, "0");
  const us = process.geteuid?.() ?? "another user";
  return `${found.path} belongs to user ${found.info.uid} with mode ${mode}, and the server runs as user ${us}. Give it to that user`;
}

/** Finds the path itself or its nearest ancestor, whichever can be read with `stat`. */
async function nearest(path: string): Promise<{ path: string; info: Stats }> {
  const info = await stat(path).catch(() => undefined);
  return info || path === dirname(path) ? { path, info: info ?? (await stat("/")) } : nearest(dirname(path));
}
