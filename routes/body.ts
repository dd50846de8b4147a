/** Bounds what all bodies that are being received may take together, before any of them is verified. */
import type { Request, RequestHandler, Response } from "express";
import { sendProblem } from "./errors.ts";

export interface BodyBudgetOptions {
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
 * Refuses a body that says it is too large before any of it is read, and what is too much when memory would run out.
 * What counts is what has come: a stranger who only announces much, and sends nothing, holds nobody up.
 */
export function createBodyBudget({ maxBodyBytes, maxBytesInFlight }: BodyBudgetOptions): RequestHandler {
  let inFlight = 0;
  let unpacking = 0;

  function countBytes(req: Request, res: Response): void {
    let mine = 0;
    req.on("data", (chunk: Buffer) => {
      mine += chunk.length;
      inFlight += chunk.length;
      if (inFlight <= maxBytesInFlight || res.headersSent) return;
      req.pause();
      res.set("Connection", "close");
      res.once("finish", () => req.destroy());
      refuse(res);
    });
    res.once("close", () => (inFlight -= mine));
  }

  return function admitBody(req, res, next) {
    if (Number(req.get("content-length") ?? 0) > maxBodyBytes) {
      return sendProblem(res, 413, { error: `The body is too large: ${maxBodyBytes} bytes is the limit.` });
    }
    if (isCompressed(req)) {
      if (unpacking >= mostUnpacking) return refuse(res);
      unpacking++;
      res.once("close", () => unpacking--);
    } else {
      countBytes(req, res);
    }
    next();
  };
}

function refuse(res: Response): void {
  res.set("Retry-After", "1");
  sendProblem(res, 429, { error: "Too many deliveries are being received.", hint: "Send it again." });
}

function isCompressed(req: Request): boolean {
  return (req.get("content-encoding") ?? "identity").toLowerCase() !== "identity";
}
