/** What came of a run of kluctl. */
import { lstat } from "node:fs/promises";
import { KilledError, KluctlUnavailableError, PrepareError } from "../errors.ts";
import { ThreadError } from "../thread/in-thread.ts";
import type { Ended } from "./process.ts";
import { lastWords } from "./progress.ts";

/** Larger documents than this are no result of any real project; they would only fill the memory. */
const longestResult = 256 * 1024 * 1024;

/**
 * kluctl exits with 1 for whatever goes wrong. But it writes its result before it says that the command failed, so a
 * result with errors means that it ran, and no result means that the project could not be loaded or rendered.
 */
export async function readOutcome<T>(
  ended: Ended,
  resultFile: string,
  read: (file: string, size: number) => Promise<T>,
  toWords: (text: string) => string,
): Promise<T> {
  const info = await lstat(resultFile).catch(() => undefined);
  // A link would have us read what it leads to, and a pipe would never end.
  if (info !== undefined && !info.isFile()) throw new Error("kluctl's result cannot be read: it is not a file");
  const size = info?.size ?? 0;
  if (size === 0) throw toFailure(ended, toWords);
  // Nothing of the document and no parser's message goes into the error: it holds secrets.
  if (size > longestResult) throw new Error(`kluctl's result cannot be read: it has ${size} bytes`);
  try {
    return await read(resultFile, size);
  } catch (error) {
    if (diskIsFull(ended)) throw noRoom();
    if (error instanceof ThreadError)
      throw new Error(`kluctl's result of ${size} bytes cannot be read: ${error.message}`);
    throw new Error(`kluctl's result cannot be read: its ${size} bytes are not a known document`);
  }
}

function toFailure(ended: Ended, toWords: (text: string) => string): Error {
  const { exitCode, stderr } = ended;
  const words = toWords(lastWords(stderr));
  if (diskIsFull(ended)) return noRoom();
  if (exitCode === 126 || exitCode === 127) return new KluctlUnavailableError(`kluctl cannot be started: ${words}`);
  if (exitCode === 1) return new PrepareError(words || "kluctl failed without saying why");
  if (exitCode === 0) return new Error("kluctl's result cannot be read: kluctl wrote none");
  // 2 is a panic of kluctl's, which git's time-outs lead to as well.
  return new KilledError("signal", `kluctl failed (exit status ${exitCode}): ${words.split("\n", 1)[0]}`);
}

function diskIsFull({ stderr }: Ended): boolean {
  return /no space left on device|disk quota exceeded/i.test(stderr);
}

/** Says it when our own files found no room. */
export function explainDisk(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOSPC" || code === "EDQUOT" ? noRoom() : error;
}

function noRoom(): Error {
  return new Error("No space left on the disk for kluctl: free some in the cache and work directories.");
}
