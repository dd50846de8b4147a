/** Reads bodies, and bounds what all that are being received may take together, before any of them is verified. */
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import { sendProblem } from "./errors.ts";

export interface BodyOptions {
  /** Of one body, also of what a compressed one unpacks to. */
  readonly maxBodyBytes: number;
  /** Of all bodies at once. */
  readonly maxBytesInFlight: number;
}

/**
 * A few bytes may unpack to as much as is allowed, so the whole of it is set aside for each compressed body. No git host
 * sends any; a proxy may.
 */
const mostUnpacking = 2;

/**
 * Leaves the bytes as they came in `req.body`. Refuses a body that says it is too large before any of it is read, and what
 * is too much when memory would run out. What counts is what has come: a stranger who only announces much, and sends
 * nothing, holds nobody up.
 */
export function createBodyReader({ maxBodyBytes, maxBytesInFlight }: BodyOptions): RequestHandler {
  const unpack = express.raw({ type: () => true, limit: maxBodyBytes, inflate: true });
  let inFlight = 0;
  let unpacking = 0;

  function readPlain(req: Request, res: Response, next: NextFunction): void {
    const chunks: Buffer[] = [];
    let mine = 0;
    req.on("data", (chunk: Buffer) => {
      if (res.headersSent) return; // refused, and given back when that was told: what still comes is dropped
      mine += chunk.length;
      inFlight += chunk.length;
      if (mine > maxBodyBytes) refuseSize(res, maxBodyBytes);
      else if (inFlight > maxBytesInFlight) {
        req.pause();
        res.set("Connection", "close");
        res.once("finish", () => req.destroy());
        refuseForNow(res);
      } else return void chunks.push(chunk);
      chunks.length = 0;
    });
    req.once("end", () => {
      if (res.headersSent) return;
      req.body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
      next();
    });
    res.once("close", () => (inFlight -= mine));
  }

  return function readBody(req, res, next) {
    if (Number(req.headers["content-length"] ?? 0) > maxBodyBytes) return refuseSize(res, maxBodyBytes);
    const encoding = req.headers["content-encoding"];
    if (encoding === undefined || encoding.toLowerCase() === "identity") return readPlain(req, res, next);
    if (unpacking >= mostUnpacking) return refuseForNow(res);
    unpacking++;
    res.once("close", () => unpacking--);
    unpack(req, res, next);
  };
}

function refuseSize(res: Response, maxBodyBytes: number): void {
  sendProblem(res, 413, { error: `The body is too large: ${maxBodyBytes} bytes is the limit.` });
}

function refuseForNow(res: Response): void {
  res.set("Retry-After", "1");
  sendProblem(res, 429, { error: "Too many deliveries are being received.", hint: "Send it again." });
}
