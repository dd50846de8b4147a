/**
 * Receives the bodies of strangers: until all of a body is there and its signature is checked, nothing is known of its
 * sender. So no plain body is turned away for what others hold: when memory runs out, the body that has held most of it for
 * longest has to go.
 */
import type { Request, RequestHandler, Response } from "express";
import { setTimeout as sleep } from "node:timers/promises";
import { brotliDecompress, gunzip, inflate, type InputType, zstdDecompress } from "node:zlib";
import { promisify } from "node:util";
import { RequestError } from "../src/errors.ts";
import { sendProblem } from "./errors.ts";

export interface BodyOptions {
  /** Of one body, also of what a compressed one unpacks to. */
  readonly maxBodyBytes: number;
  /** Of all bodies at once. */
  readonly maxBytesInFlight: number;
  /** Whose bytes are counted together. */
  readonly senderOf: (req: Request) => string;
}

/** Nearly all deliveries are smaller. Larger ones leave them a quarter of the room. */
const ordinaryBytes = 1024 * 1024;
const shareOfLarge = 3 / 4;
/** Of the room, for one sender: behind an ingress that is not trusted all deliveries come from one. */
const shareOfSender = 1 / 2;

/** What is received in several pieces starts with this much room. */
const firstRoom = 16 * 1024;

/**
 * A few bytes may unpack to as much as is allowed, so only so many are unpacked at once, and so many others wait. No git
 * host sends compressed bodies; a proxy may.
 */
const mostUnpacking = 2;
const mostWaiting = 16;

/** A sender of bombs would keep the processor busy with their signatures: what is unpacked is let through at this rate. */
const unpackedBytesPerMs = 20_000;

type Unpack = (body: InputType, limits: { maxOutputLength: number }) => Promise<Buffer>;
const unpackers = new Map<string, Unpack>([
  ["gzip", promisify(gunzip) as Unpack],
  ["deflate", promisify(inflate) as Unpack],
  ["br", promisify(brotliDecompress) as Unpack],
  ["zstd", promisify(zstdDecompress) as Unpack],
]);

/** A body that is not verified yet, unless all of it came at once. */
interface Unverified {
  sender: string;
  readonly since: number;
  bytes: number;
  /** What has come; nothing once it is refused or its sender has hung up. */
  read(): Buffer;
  refuse(): void;
}

/**
 * Leaves the bytes as they came in `req.body`. Refuses a body that says it is too large before any of it is read. What
 * counts is what has come: a stranger who only announces much, and sends nothing, holds nobody up.
 */
export function createBodyReader({ maxBodyBytes, maxBytesInFlight, senderOf }: BodyOptions): RequestHandler {
  const unverified = new Set<Unverified>();
  /** How to unpack those that wait for it, the longest first. */
  const waiting = new Map<Unverified, () => Promise<void>>();
  let [inFlight, unpacking] = [0, 0];

  const sum = (counts: (body: Unverified) => boolean) => {
    let bytes = 0;
    for (const body of unverified) if (counts(body)) bytes += body.bytes;
    return bytes;
  };

  /** Refuses the costliest, and again, until what counts fits. Says whether it does. */
  function fit(total: () => number, most: number, counts: (body: Unverified) => boolean): boolean {
    while (total() > most) {
      const now = performance.now();
      let [costliest, highest]: [Unverified | undefined, number] = [undefined, -1];
      for (const body of unverified) {
        const cost = counts(body) ? body.bytes * (now - body.since) : -1;
        if (cost > highest) [costliest, highest] = [body, cost];
      }
      if (costliest === undefined) return false;
      costliest.refuse();
    }
    return true;
  }

  /** Whatever it refuses may be the body that has just grown. */
  function makeRoom(sender: string): boolean {
    // No share can be exceeded before half of the room is taken.
    if (inFlight <= maxBytesInFlight * Math.min(shareOfLarge, shareOfSender)) return true;
    const isLarge = ({ bytes }: Unverified) => bytes > ordinaryBytes;
    const isTheirs = (body: Unverified) => body.sender === sender;
    fit(() => sum(isTheirs), maxBytesInFlight * shareOfSender, isTheirs);
    fit(() => sum(isLarge), maxBytesInFlight * shareOfLarge, isLarge);
    return fit(
      () => inFlight,
      maxBytesInFlight,
      () => true,
    );
  }

  /** Refuses the one that has waited longest of the sender with most of them, if there are too many. */
  function boundWaiting(): void {
    if (waiting.size <= mostWaiting) return;
    const bySender = Map.groupBy(waiting.keys(), ({ sender }) => sender);
    const [longest] = [...bySender.values()].reduce((most, theirs) => (theirs.length > most.length ? theirs : most));
    longest?.refuse();
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

  function receive(req: Request, res: Response, done: () => void): Unverified {
    const announced = req.headers["content-length"];
    const most = announced === undefined ? maxBodyBytes : Number(announced);
    const read = () => room.subarray(0, length);
    const body: Unverified = { sender: "", since: performance.now(), bytes: 0, read, refuse };
    let [room, length]: [Buffer, number] = [Buffer.alloc(0), 0];
    function hold(bytes: number): void {
      inFlight += bytes - body.bytes;
      body.bytes = bytes;
    }
    function drop(): void {
      unverified.delete(body);
      waiting.delete(body);
      hold(0);
      room = Buffer.alloc(0);
    }
    function refuse(): void {
      drop();
      req.pause();
      res.set("Connection", "close");
      res.once("finish", () => req.destroy());
      refuseForNow(res);
    }

    req.on("data", (chunk: Buffer) => {
      if (res.headersSent) return; // refused: what still comes is dropped
      const needed = length + chunk.length;
      if (needed > maxBodyBytes) {
        drop();
        return refuseSize(res, maxBodyBytes);
      }
      if (length === 0) {
        room = chunk;
        if (needed < most || isPacked(req)) {
          body.sender = senderOf(req);
          unverified.add(body);
        }
      } else {
        // Pieces may be as small as a byte each, and a list of those would take a hundred times what is counted.
        if (needed > room.length) room = copyInto(Buffer.allocUnsafeSlow(nextRoom(needed, most)), room, length);
        chunk.copy(room, length);
      }
      length = needed;
      if (body.bytes === room.length) return;
      hold(room.length);
      if (!makeRoom(body.sender) && !res.headersSent) refuse();
    });
    req.once("end", () => {
      if (!res.headersSent) done();
    });
    res.once("close", drop);
    return body;
  }

  return function readBody(req, res, next) {
    if (Number(req.headers["content-length"] ?? 0) > maxBodyBytes) return refuseSize(res, maxBodyBytes);
    if (!isPacked(req)) {
      const plain = receive(req, res, () => {
        unverified.delete(plain);
        req.body = plain.read();
        next();
      });
      return;
    }
    const unpack = unpackers.get(req.headers["content-encoding"]?.toLowerCase() ?? "");
    if (unpack === undefined)
      throw new RequestError(
        415,
        "Unsupported content encoding.",
        "Send the body uncompressed, or with gzip, deflate, br or zstd.",
      );
    const body = receive(req, res, () => {
      if (res.closed) return;
      const answered = new Promise<void>((resolve) => res.once("close", resolve));
      waiting.set(body, async () => {
        unverified.delete(body);
        const bytes = await unpack(body.read(), { maxOutputLength: maxBodyBytes }).catch(toRequestError);
        req.body = bytes;
        next(bytes instanceof RequestError ? bytes : undefined);
        await answered; // until then it holds what it unpacked to
        await sleep((bytes instanceof RequestError ? maxBodyBytes : bytes.length) / unpackedBytesPerMs);
      });
      unpackNext();
      boundWaiting();
    });
  };
}

function isPacked(req: Request): boolean {
  const encoding = req.headers["content-encoding"];
  return encoding !== undefined && encoding.toLowerCase() !== "identity";
}

function copyInto(larger: Buffer, room: Buffer, length: number): Buffer {
  room.copy(larger, 0, 0, length);
  return larger;
}

/** Twice what is needed, but no more than can come, and not above what is ordinary before the body is. */
function nextRoom(needed: number, most: number): number {
  const wanted = Math.max(firstRoom, 2 * needed);
  return Math.min(most, needed <= ordinaryBytes ? Math.min(wanted, ordinaryBytes) : wanted);
}

function toRequestError(error: NodeJS.ErrnoException): RequestError {
  return error.code === "ERR_BUFFER_TOO_LARGE"
    ? new RequestError(413, "The body is too large.", "The limit also applies to the decompressed size.")
    : new RequestError(400, "The body cannot be decompressed with its Content-Encoding.");
}

function refuseSize(res: Response, maxBodyBytes: number): void {
  sendProblem(res, 413, { error: `The body is too large: the limit is ${maxBodyBytes} bytes.` });
}

function refuseForNow(res: Response): void {
  res.set("Retry-After", "1");
  sendProblem(res, 429, { error: "Too many deliveries are being received.", hint: "Send the delivery again." });
}
