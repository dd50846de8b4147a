/** Determines the outcome of a kluctl run. */
import { lstat } from "node:fs/promises";
import { KilledError, KluctlUnavailableError, PrepareError } from "../errors.ts";
import { ThreadError } from "../kit/in-thread.ts";
import type { Ended } from "./process.ts";
import { lastWords } from "./progress.ts";

/** Bytes. No real project has a larger result; reading one would only fill the memory. */
const longestResult = 256 * 1024 * 1024;

/**
 * kluctl exits with 1 for any failure, but writes its result first. So a result with errors means that the command ran,
 * and a missing result means that the project could not be loaded or rendered.
 */
export async function readOutcome<T>(
  ended: Ended,
  resultFile: string,
  read: (file: string, size: number) => Promise<T>,
  toWords: (text: string) => string,
): Promise<T> {
  const info = await lstat(resultFile).catch(() => undefined);
  // Reading a link would read the file it points to, and reading a pipe would never end.
  if (info !== undefined && !info.isFile()) throw new Error("kluctl's result cannot be read: it is not a file");
  const size = info?.size ?? 0;
  if (size === 0) throw toFailure(ended, toWords);
  // The error must contain neither the document nor a parser's message: both hold secrets.
  if (size > longestResult) throw new Error(`kluctl's result cannot be read: it has ${size} bytes`);
  try {
    return await read(resultFile, size);
  } catch (error) {
    if (diskIsFull(ended)) throw noRoom();
    if (error instanceof ThreadError)
      throw new Error(`kluctl's result of ${size} bytes cannot be read: ${error.message}`);
    throw new Error(
      `kluctl's result cannot be read: its ${size} bytes are in no format that Towline knows; check the version of kluctl with \`towline doctor\``,
    );
  }
}

function toFailure(ended: Ended, toWords: (text: string) => string): Error {
  const { exitCode, stderr } = ended;
  const words = toWords(lastWords(stderr));
  if (diskIsFull(ended)) return noRoom();
  if (exitCode === 126 || exitCode === 127) return new KluctlUnavailableError(`kluctl cannot be started: ${words}`);
  if (exitCode === 1) return new PrepareError(words || "kluctl failed without saying why");
  if (exitCode === 0) return new Error("kluctl's result cannot be read: kluctl wrote none");
  // 2 is a panic in kluctl, which git timeouts can cause too.
  return new KilledError("signal", `kluctl failed (exit status ${exitCode}): ${words.split("\n", 1)[0]}`);
}

function diskIsFull({ stderr }: Ended): boolean {
  return /no space left on device|disk quota exceeded/i.test(stderr);
}

/** Explains a full disk when our own writes failed. */
export function explainDisk(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT" ? noRoom() : error;
}

function noRoom(): Error {
  return new Error("No space left on the disk for kluctl: free some in the cache and work directories.");
}
