/**
 * Finds the encrypted files of a checkout that is not yet in use, and replaces their values by placeholders that may be
 * shown.
 */
import { createHash, randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { PrepareError } from "../errors.ts";
import { formatOf, stubText } from "./stub-text.ts";

/** Path from the checkout's root → digest of everything encrypted in that file. */
type Found = ReadonlyMap<string, string>;

/** Limits per checkout; a branch may contain anything. */
export interface StubLimits {
  readonly files: number;
  readonly depth: number;
  /** Total of all files that could be encrypted. */
  readonly bytes: number;
  /** SOPS files in use are smaller, and kluctl's own controller does not decrypt larger ones. */
  readonly fileBytes: number;
}

const defaultLimits: StubLimits = { files: 200_000, depth: 100, bytes: 256 * 1024 ** 2, fileBytes: 5 * 1024 ** 2 };
/**
 * How much is processed before yielding to the event loop. The calls are synchronous: opening the files on other
 * threads takes ten times the CPU.
 */
const filesAtOnce = 50;
const bytesAtOnce = 1024 ** 2;

interface FoundFile {
  readonly path: string;
  readonly text: string;
  readonly digest: string;
}

/** Read-only. Throws PrepareError if the checkout exceeds a limit. */
export async function findEncrypted(
  root: string,
  signal: AbortSignal,
  limits: Partial<StubLimits> = {},
): Promise<Found> {
  const found = new Map<string, string>();
  for await (const { path, digest } of walk(root, signal, { ...defaultLimits, ...limits })) found.set(path, digest);
  return found;
}

/** Like `findEncrypted`, and replaces the encrypted values in the files. */
export async function stubEncrypted(
  root: string,
  signal: AbortSignal,
  limits: Partial<StubLimits> = {},
): Promise<Found> {
  const found = new Map<string, string>();
  for await (const { path, text, digest } of walk(root, signal, { ...defaultLimits, ...limits })) {
    found.set(path, digest);
    const file = join(root, path);
    const next = `${file}.${randomBytes(6).toString("hex")}`;
    writeFileSync(next, text, { encoding: "latin1", flag: "wx", mode: 0o600 });
    renameSync(next, file);
  }
  return found;
}

/** Does not follow symbolic links. */
async function* walk(root: string, signal: AbortSignal, limits: StubLimits): AsyncGenerator<FoundFile> {
  const directories = [{ path: "", depth: 0 }];
  let files = 0;
  let bytes = 0;
  let pausesAt = { files: filesAtOnce, bytes: bytesAtOnce };
  for (let at = directories.pop(); at !== undefined; at = directories.pop()) {
    for (const entry of readdirSync(join(root, at.path), { withFileTypes: true })) {
      if (++files > limits.files) throw tooMuch(`more than ${limits.files} files`);
      if (files >= pausesAt.files || bytes >= pausesAt.bytes) {
        await setImmediate();
        signal.throwIfAborted();
        pausesAt = { files: files + filesAtOnce, bytes: bytes + bytesAtOnce };
      }
      const path = at.path === "" ? entry.name : `${at.path}/${entry.name}`;
      if (entry.isDirectory() && entry.name !== ".git") {
        if (at.depth === limits.depth) throw tooMuch(`directories more than ${limits.depth} deep`);
        directories.push({ path, depth: at.depth + 1 });
      }
      const format = entry.isFile() ? formatOf(entry.name) : undefined;
      if (format === undefined) continue;
      const text = read(join(root, path), limits.fileBytes);
      bytes += text.length;
      if (bytes > limits.bytes) throw tooMuch(`more than ${limits.bytes} bytes of YAML, JSON and the like`);
      const stubbed = text.includes("ENC[AES256_GCM,") && text.includes("sops") ? stubText(text, format) : undefined;
      if (stubbed === undefined) continue;
      const digest = createHash("sha256").update(stubbed.ciphertexts.join("\n")).digest("hex");
      yield { path, text: stubbed.text, digest };
    }
  }
}

/** Returns an empty text for a file that is too large: kluctl cannot decrypt it either, and reports that. */
function read(path: string, most: number): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const info = fstatSync(file);
    if (!info.isFile() || info.size > most) return "";
    const buffer = Buffer.allocUnsafe(info.size);
    let length = 0;
    for (let more = -1; more !== 0 && length < buffer.length; length += more) {
      more = readSync(file, buffer, length, buffer.length - length, null);
    }
    return buffer.toString("latin1", 0, length);
  } finally {
    closeSync(file);
  }
}

function tooMuch(what: string): PrepareError {
  return new PrepareError(`the repository cannot be searched for encrypted files: it has ${what}`);
}
