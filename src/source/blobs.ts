/** A cache of files fetched by digest, so that the next reconciliation need not fetch them again. */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat, utimes, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { Transform, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SourceError } from "../errors.ts";
import { createTurns } from "../kit/turns.ts";
import type { Layer } from "./artifact.ts";

export interface Blobs {
  /**
   * Opens the blob for reading, and fetches it first if necessary. The returned handle stays valid even if the file is
   * removed. `folder` separates access rights: a caller never gets a blob that another login fetched.
   */
  open(folder: string, blob: Layer, fetch: () => Promise<Readable>, signal: AbortSignal): Promise<FileHandle>;
  /** Removes blobs that were not used for the given time; returns how many. */
  sweep(idleMs: number): Promise<number>;
}

/** Bytes. Enough for many commits of a large project with its charts; container images do not belong here. */
const largest = 512 * 1024 * 1024;

export function createBlobs(directory: string): Blobs {
  /** Callers that want the same blob wait for each other, so that it is fetched once. */
  const turns = createTurns();

  return {
    async open(folder, blob, fetch, signal) {
      if (blob.size > largest) throw new SourceError("refused", `the artifact is larger than ${largest} bytes`);
      const path = join(directory, folder, blob.digest.replace(":", "-"));
      const take = async () => {
        const kept = await open(path, "r").catch(() => undefined);
        if (kept !== undefined) {
          const now = new Date();
          await utimes(path, now, now).catch(() => undefined); // marks it as in use, see sweep
          return kept;
        }
        await mkdir(join(directory, folder), { recursive: true, mode: 0o700 });
        await download(blob, path, await fetch(), signal);
        return open(path, "r");
      };
      return turns.run(path, take, { signal });
    },

    async sweep(idleMs) {
      let removed = 0;
      for (const folder of await readdir(directory).catch(() => [])) {
        for (const name of await readdir(join(directory, folder)).catch(() => [])) {
          const path = join(directory, folder, name);
          const found = await stat(path).catch(() => undefined);
          if (found === undefined || Date.now() - found.mtimeMs < idleMs) continue;
          await rm(path, { force: true });
          removed++;
        }
      }
      return removed;
    },
  };
}

/** Downloads to a temporary file, which is renamed only if size and digest match the manifest. */
async function download({ digest, size }: Layer, path: string, from: Readable, signal: AbortSignal): Promise<void> {
  const hash = createHash("sha256");
  let bytes = 0;
  const check = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      done(bytes > size ? otherThanAnnounced() : null, chunk);
    },
  });
  const unfinished = `${path}.${process.pid}.part`;
  try {
    await pipeline(from, check, createWriteStream(unfinished, { mode: 0o600 }), { signal });
    if (bytes !== size || `sha256:${hash.digest("hex")}` !== digest) throw otherThanAnnounced();
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}

function otherThanAnnounced(): SourceError {
  return new SourceError("unreachable", "the registry's data does not match its manifest");
}
