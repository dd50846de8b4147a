/**
 * Receives bodies from unauthenticated senders: nothing is known about a sender until the whole body has arrived and
 * its signature is checked. So no plain body is rejected because of memory that others hold: when memory runs out, the
 * body with the largest product of size and age is dropped.
 */
import type { Request, RequestHandler, Response } from "express";
import { RequestError } from "../src/errors.ts";
import { sendProblem } from "./errors.ts";
import { createUnpacking, type Packed, parseEncoding } from "./unpacking.ts";

export interface BodyOptions {
  /** Limit for one body, before and after decompression. */
  readonly maxBodyBytes: number;
  /** Limit for all bodies together. */
  readonly maxBytesInFlight: number;
  /** Groups the bodies of one sender for its limit. */
  readonly senderOf: (req: Request) => string;
}

/** Nearly all deliveries are smaller. Larger ones leave them a quarter of the memory. */
const ordinaryBytes = 1024 * 1024;
const shareOfLarge = 3 / 4;
/** The share of one sender: behind an untrusted ingress, all deliveries come from one address. */
const shareOfSender = 1 / 2;

/** The initial buffer size of a body that arrives in several pieces. */
const firstRoom = 16 * 1024;

/** A body that is not verified yet, unless it arrived in one piece. */
interface Unverified extends Packed {
  sender: string;
  readonly since: number;
  bytes: number;
  /** Stops waiting to be decompressed. */
  leave?: () => void;
}

/**
 * Puts the unmodified bytes into `req.body`. Rejects a body that announces too large a size before reading it. Only
 * received bytes count: a sender that announces a lot but sends nothing affects nobody else.
 */
export function createBodyReader({ maxBodyBytes, maxBytesInFlight, senderOf }: BodyOptions): RequestHandler {
  const unverified = new Set<Unverified>();
  const unpacking = createUnpacking(maxBodyBytes);
  let inFlight = 0;

  const sum = (counts: (body: Unverified) => boolean) => {
    let bytes = 0;
    for (const body of unverified) if (counts(body)) bytes += body.bytes;
    return bytes;
  };

  /** Rejects the costliest bodies until the rest fits. Returns whether it does. */
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

  /** May reject the body that has just grown. */
  function makeRoom(sender: string): boolean {
    // No share can be exceeded before half of the memory is used.
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
      body.leave?.();
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
      if (res.headersSent) return; // rejected: drop the remaining data
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
        // Pieces may be as small as one byte, and a list of them would take a hundred times the counted memory.
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
    const encoding = parseEncoding(req.headers["content-encoding"]);
    const body = receive(req, res, () => {
      if (res.closed) return;
      const answered = new Promise<void>((resolve) => res.once("close", resolve));
      body.leave = unpacking.add(body, encoding, {
        begins: () => void unverified.delete(body),
        async use(bytes) {
          req.body = bytes;
          next(bytes instanceof RequestError ? bytes : undefined);
          await answered; // until then, the decompressed body is in memory
        },
      });
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

/** Twice what is needed, but no more than can arrive, and at most the ordinary size until the body exceeds it. */
function nextRoom(needed: number, most: number): number {
  const wanted = Math.max(firstRoom, 2 * needed);
  return Math.min(most, needed <= ordinaryBytes ? Math.min(wanted, ordinaryBytes) : wanted);
}

function refuseSize(res: Response, maxBodyBytes: number): void {
  sendProblem(res, 413, { error: `The body is too large: the limit is ${maxBodyBytes} bytes.` });
}

function refuseForNow(res: Response): void {
  res.set("Retry-After", "1");
  sendProblem(res, 429, { error: "Too many deliveries are being received.", hint: "Send the delivery again." });
}
