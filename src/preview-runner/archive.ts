/**
 * Sends a directory as a stream: one entry after another, each with its kind, lengths, name and content. To git and the
 * kernel, names are bytes, so they are read as Latin-1, which preserves each byte. All content is untrusted: links are
 * never followed. Sender and receiver both enforce the limits, so that neither has to hold more than it can.
 */
import { constants } from "node:fs";
import { mkdir, open, opendir, readlink, realpath, symlink } from "node:fs/promises";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ArchiveError } from "../kit/untar.ts";

type Kind = "directory" | "file" | "program" | "link" | "end";

const kinds: readonly Kind[] = ["end", "directory", "file", "program", "link"];

/** One byte for the kind, two for the name's length, six for the content's. */
const headBytes = 9;

const chunkBytes = 64 * 1024;

/**
 * Limits for the files of a branch. Links are held in memory until all files are written, and names of directories
 * until they are read.
 */
export interface SlotLimits {
  readonly entries: number;
  readonly links: number;
  readonly bytes: number;
  /** Names and targets of links together. */
  readonly nameBytes: number;
}

export const slotLimits: SlotLimits = { entries: 400_000, links: 50_000, bytes: 1024 ** 3, nameBytes: 64 * 1024 ** 2 };

/** A directory that becomes one in the archive's root. */
export interface PackedDirectory {
  readonly name: string;
  readonly dir: string;
}

/**
 * Streams everything below the directory except `.git`, which contains the history of every branch, and special files.
 */
export function pack(dir: string, limits: SlotLimits, others: readonly PackedDirectory[] = []): AsyncGenerator<Buffer> {
  return inChunks(packAll(dir, others, counting(limits)));
}

async function* packAll(dir: string, others: readonly PackedDirectory[], count: Count): AsyncGenerator<Buffer> {
  yield* packEntries(dir, "", count);
  for (const other of others) {
    yield headOf("directory", other.name, 0, count);
    yield* packEntries(other.dir, `${other.name}/`, count);
  }
  yield headOf("end", "", 0, count);
}

function headOf(kind: Kind, name: string, size: number, count: Count): Buffer {
  count(kind, name, size);
  const head = Buffer.alloc(headBytes);
  head.writeUInt8(kinds.indexOf(kind), 0);
  head.writeUInt16BE(name.length, 1);
  head.writeUIntBE(size, 3, 6);
  return Buffer.concat([head, Buffer.from(name, "latin1")]);
}

/** `prefix`: of the names in the archive. */
async function* packEntries(dir: string, prefix: string, count: Count): AsyncGenerator<Buffer> {
  const toHead = (kind: Kind, name: string, size: number) => headOf(kind, `${prefix}${name}`, size, count);

  async function* packFile(name: string): AsyncGenerator<Buffer> {
    const file = await open(locate(dir, name), constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { size, mode } = await file.stat();
      yield toHead(mode & 0o100 ? "program" : "file", name, size);
      for (let left = size; left > 0;) {
        const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, chunkBytes)));
        if (bytesRead === 0) throw new Error("a file became shorter while it was read");
        left -= bytesRead;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  const pending = [""];
  for (let parent = pending.pop(); parent !== undefined; parent = pending.pop()) {
    for await (const entry of await opendir(locate(dir, parent), { encoding: "latin1", bufferSize: 256 })) {
      if (isGit(entry.name)) continue;
      const name = parent === "" ? entry.name : `${parent}/${entry.name}`;
      if (entry.isFile()) yield* packFile(name);
      else if (entry.isDirectory()) {
        yield toHead("directory", name, 0);
        pending.push(name);
      } else if (entry.isSymbolicLink()) {
        const target = await readlink(locate(dir, name), { encoding: "buffer" });
        yield Buffer.concat([toHead("link", name, target.length), target]);
      }
    }
  }
}

/** Joins small pieces into chunks, because sending many small ones is expensive. */
async function* inChunks(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let [held, bytes]: [Buffer[], number] = [[], 0];
  for await (const piece of pieces) {
    held.push(piece);
    bytes += piece.length;
    if (bytes < chunkBytes) continue;
    yield Buffer.concat(held);
    [held, bytes] = [[], 0];
  }
  yield Buffer.concat(held);
}

/**
 * Unpacks into an existing empty directory. Throws ArchiveError for an invalid archive; entries unpacked by then are
 * left in place.
 */
export async function unpack(archive: Readable, dir: string, limits: SlotLimits, signal: AbortSignal): Promise<void> {
  try {
    await pipeline(archive, (chunks: AsyncIterable<Buffer>) => unpackEntries(chunks, dir, counting(limits)), {
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    throw explain(error as NodeJS.ErrnoException);
  }
}

async function unpackEntries(chunks: AsyncIterable<Buffer>, dir: string, count: Count): Promise<void> {
  const { take, some } = reading(chunks);
  const links: { readonly name: string; readonly target: Buffer }[] = [];
  for (;;) {
    const head = await take(headBytes);
    const kind = kinds[head.readUInt8(0)];
    if (kind === undefined) throw new ArchiveError("it is not an archive");
    const name = (await take(head.readUInt16BE(1))).toString("latin1");
    const size = head.readUIntBE(3, 6);
    if (kind === "end") break;
    if (!isBelow(name)) throw new ArchiveError(`it holds a file named ${JSON.stringify(name.slice(0, 200))}, which would lead out of it`); // prettier-ignore
    count(kind, name, size);
    if (kind === "directory") await mkdir(locate(dir, name), { mode: 0o700 });
    else if (kind === "link") links.push({ name, target: await take(size) });
    else await writeNew(locate(dir, name), kind === "program" ? 0o700 : 0o600, size, some);
  }
  // Created last, so that no file is ever written through a link.
  const root = await realpath(dir);
  for (const { name, target } of links) {
    const parent = locate(root, name.slice(0, Math.max(0, name.lastIndexOf("/"))));
    if (!parent.equals(await realpath(parent, { encoding: "buffer" })))
      throw new ArchiveError("a link in it has a link in its path");
    await symlink(target, locate(root, name));
  }
}

type Some = (mostBytes: number) => Promise<Buffer>;

async function writeNew(path: Buffer, mode: number, size: number, some: Some): Promise<void> {
  const file = await open(path, "wx", mode);
  try {
    for (let left = size; left > 0;) {
      const chunk = await some(left);
      await file.writeFile(chunk);
      left -= chunk.length;
    }
  } finally {
    await file.close();
  }
}

function reading(chunks: AsyncIterable<Buffer>): { readonly take: Some; readonly some: Some } {
  const iterator = chunks[Symbol.asyncIterator]();
  let held = Buffer.alloc(0);

  /** Returns at most `mostBytes`, as soon as any are available. */
  async function some(mostBytes: number): Promise<Buffer> {
    while (held.length === 0) {
      const next = await iterator.next();
      if (next.done) throw new ArchiveError("it ends too early");
      held = next.value as Buffer<ArrayBuffer>;
    }
    const taken = held.subarray(0, mostBytes);
    held = held.subarray(taken.length);
    return taken;
  }

  /** Returns exactly this many bytes. */
  async function take(bytes: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let left = bytes; left > 0; left -= parts.at(-1)?.length ?? 0) parts.push(await some(left));
    return Buffer.concat(parts);
  }

  return { take, some };
}

type Count = (kind: Kind, name: string, size: number) => void;

function counting(most: SlotLimits): Count {
  let [entries, links, bytes, nameBytes] = [0, 0, 0, 0];
  return (kind, name, size) => {
    entries++;
    nameBytes += name.length;
    if (kind === "link") {
      links++;
      nameBytes += size;
    } else bytes += size;
    if (bytes > most.bytes) throw new ArchiveError(`it holds more than ${most.bytes / 1024 ** 2} MiB`);
    if (entries > most.entries) throw new ArchiveError(`it holds more than ${most.entries} files`);
    if (links > most.links) throw new ArchiveError(`it holds more than ${most.links} symbolic links`);
    if (nameBytes > most.nameBytes)
      throw new ArchiveError(`the names in it are longer than ${most.nameBytes / 1024 ** 2} MiB together`);
  };
}

function locate(dir: string, name: string): Buffer {
  return name === "" ? Buffer.from(dir) : Buffer.concat([Buffer.from(`${dir}/`), Buffer.from(name, "latin1")]);
}

function isGit(part: string): boolean {
  return part.toLowerCase() === ".git";
}

function isBelow(name: string): boolean {
  return name.split("/").every((part) => !["", ".", ".."].includes(part) && !part.includes("\0") && !isGit(part));
}

/** File system errors caused by names in the archive. Other errors, such as a full disk, are not translated. */
const aboutNames: Readonly<Record<string, string>> = {
  EEXIST: "it contains a name twice",
  ENOTDIR: "it contains a name twice",
  ENAMETOOLONG: "a name in it is too long",
};

function explain(error: NodeJS.ErrnoException): Error {
  const words = aboutNames[error.code ?? ""];
  return words === undefined ? error : new ArchiveError(words, { cause: error });
}
