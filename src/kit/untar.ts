/** Unpacks untrusted tar.gz archives: only files and directories, only below the target, and only up to a limit. */
import { once } from "node:events";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { Unpack } from "tar";

export interface UntarLimits {
  /** Total size of the files' contents. */
  readonly bytes: number;
  /** Number of entries, including skipped ones. */
  readonly entries: number;
}

/** The archive is rejected; the message says why. */
export class ArchiveError extends Error {
  override name = "ArchiveError";
}

/** tar's own overhead per entry, including long names: limits what is unpacked before an entry is counted. */
const overheadPerEntry = 4 * 1024;

/**
 * Unpacks into an existing empty directory. Skips links, which may point anywhere, devices and the like, and git's own
 * directories, whose configuration can name programs to run. Throws ArchiveError; files unpacked by then stay.
 */
export async function untarGz(
  archive: Readable,
  directory: string,
  limits: UntarLimits,
  signal?: AbortSignal,
): Promise<void> {
  try {
    const unpackAll = (chunks: AsyncIterable<Buffer>) => unpack(bounded(chunks, limits), directory, limits);
    await pipeline(archive, createGunzip(), unpackAll, { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw explain(error as NodeJS.ErrnoException);
  }
}

async function unpack(chunks: AsyncIterable<Buffer>, cwd: string, limits: UntarLimits): Promise<void> {
  let [bytes, count] = [0, 0];
  let refusal: ArchiveError | undefined;

  function take(name: string, entry: { readonly type?: string; readonly size?: number; mode?: number }): boolean {
    // Accessible to this process and its children only.
    entry.mode = entry.type === "Directory" ? 0o700 : 0o600 | ((entry.mode ?? 0) & 0o100);
    bytes += entry.size ?? 0;
    count++;
    refusal ??= bytes > limits.bytes || count > limits.entries ? tooLarge(limits) : refusalOf(name);
    return refusal === undefined && taken.has(entry.type ?? "") && !isGit(name);
  }

  const tar = new Unpack({
    cwd,
    strict: true,
    noMtime: true,
    preserveOwner: false,
    filter: (name, entry) => take(name, entry),
  });
  const closed = once(tar, "close"); // rejects with the first error
  closed.catch(() => undefined); // it may fail while nothing awaits it
  tar.on("error", () => undefined); // there may be more than one
  for await (const chunk of chunks) {
    if (!tar.write(chunk)) await Promise.race([once(tar, "drain"), closed]);
    if (refusal) throw refusal;
  }
  tar.end();
  await closed;
  if (refusal) throw refusal;
}

const taken = new Set(["File", "OldFile", "ContiguousFile", "Directory"]);

function isGit(name: string): boolean {
  return name.split("/").some((part) => part.toLowerCase() === ".git");
}

/** Rejects a name outside the target directory. */
function refusalOf(name: string): ArchiveError | undefined {
  const leaves = name.startsWith("/") || name.split("/").includes("..") || /[\\\0]/.test(name);
  if (!leaves) return undefined;
  return new ArchiveError(`it holds a file named ${JSON.stringify(name.slice(0, 200))}, which would lead out of it`);
}

async function* bounded(chunks: AsyncIterable<Buffer>, limits: UntarLimits): AsyncGenerator<Buffer> {
  let left = limits.bytes + limits.entries * overheadPerEntry;
  for await (const chunk of chunks) {
    left -= chunk.length;
    if (left < 0) throw tooLarge(limits);
    yield chunk;
  }
}

function tooLarge({ bytes, entries }: UntarLimits): ArchiveError {
  return new ArchiveError(`it is larger than ${Math.floor(bytes / 1024 ** 2)} MiB or ${entries} files when unpacked`);
}

/** Error codes for names that are too long, or that stand for both a file and a directory. */
const aboutNames = ["EISDIR", "ENOTDIR", "EEXIST", "ENAMETOOLONG"];

/** Errors of the local disk are passed on unchanged. */
function explain(error: NodeJS.ErrnoException): Error {
  const ours = error.syscall !== undefined && !aboutNames.includes(error.code ?? "");
  if (ours || error instanceof ArchiveError) return error;
  return new ArchiveError(`it cannot be unpacked: ${error.message}`, { cause: error });
}
