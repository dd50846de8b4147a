/** Decompresses bodies, a few at a time. */
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, type InputType, zstdDecompress } from "node:zlib";
import { RequestError } from "../src/errors.ts";

/** A body that may be compressed. */
export interface Packed {
  readonly sender: string;
  /** The bytes so far; empty once it is rejected or its sender has disconnected. */
  read(): Buffer;
  refuse(): void;
}

/** What is done with a body, in this order. */
interface Unpacked {
  /** It is decompressed now. */
  begins(): void;
  /** Resolves once the decompressed body is no longer in memory. */
  use(bytes: Buffer | RequestError): Promise<void>;
}

export interface Unpacking {
  /** Decompresses the body when it is its turn, unless the returned function was called before. May reject one that waits. */
  add(body: Packed, unpack: Unpack, then: Unpacked): () => void;
}

/**
 * A few bytes may decompress to the maximum size, so only this many bodies are decompressed at once, and this many
 * wait. No git host sends compressed bodies, but a proxy may.
 */
const mostUnpacking = 2;
const mostWaiting = 16;

/**
 * Decompression bombs would keep the CPU busy with signature checks, so decompressed bodies are passed on at this rate.
 */
const unpackedBytesPerMs = 20_000;

type Unpack = (body: InputType, limits: { maxOutputLength: number }) => Promise<Buffer>;
const unpackers = new Map<string, Unpack>([
  ["gzip", promisify(gunzip) as Unpack],
  ["deflate", promisify(inflate) as Unpack],
  ["br", promisify(brotliDecompress) as Unpack],
  ["zstd", promisify(zstdDecompress) as Unpack],
]);

/** Throws RequestError for an encoding that is not supported. */
export function parseEncoding(encoding: string | undefined): Unpack {
  const unpack = unpackers.get(encoding?.toLowerCase() ?? "");
  if (unpack === undefined)
    throw new RequestError(
      415,
      "Unsupported content encoding.",
      "Send the body uncompressed, or with gzip, deflate, br or zstd.",
    );
  return unpack;
}

/** `maxBodyBytes`: the limit after decompression. */
export function createUnpacking(maxBodyBytes: number): Unpacking {
  /** Bodies waiting for decompression, the longest waiting first. */
  const waiting = new Map<Packed, () => Promise<void>>();
  let unpacking = 0;

  /** If too many wait, rejects the longest waiting body of the sender with the most. */
  function boundWaiting(): void {
    if (waiting.size <= mostWaiting) return;
    const bySender = Map.groupBy(waiting.keys(), ({ sender }) => sender);
    const [longest] = [...bySender.values()].reduce((most, theirs) => (theirs.length > most.length ? theirs : most));
    if (longest === undefined) return;
    waiting.delete(longest);
    longest.refuse();
  }

  function unpackNext(): void {
    const [next] = waiting;
    if (next === undefined || unpacking === mostUnpacking) return;
    const [body, unpackBody] = next;
    waiting.delete(body);
    unpacking++;
    void unpackBody().finally(() => {
      unpacking--;
      unpackNext();
    });
  }

  return {
    add(body, unpack, { begins, use }) {
      waiting.set(body, async () => {
        begins();
        const bytes = await unpack(body.read(), { maxOutputLength: maxBodyBytes }).catch(toRequestError);
        await use(bytes);
        await sleep((bytes instanceof RequestError ? maxBodyBytes : bytes.length) / unpackedBytesPerMs);
      });
      unpackNext();
      boundWaiting();
      return () => void waiting.delete(body);
    },
  };
}

function toRequestError(error: NodeJS.ErrnoException): RequestError {
  return error.code === "ERR_BUFFER_TOO_LARGE"
    ? new RequestError(
        413,
        "The decompressed body is too large.",
        "The limit, webhooks.maxBody, also applies to the decompressed size.",
      )
    : new RequestError(400, "The body cannot be decompressed with its Content-Encoding.");
}
