/** Bounds what all bodies that are being received may take together, before any of them is verified. */
import type { Request, RequestHandler } from "express";
import { sendProblem } from "./errors.ts";

export interface BodyBudgetOptions {
  /** Of one body, also of what a compressed one unpacks to. */
  readonly maxBodyBytes: number;
  /** Of all bodies at once. */
  readonly maxBytesInFlight: number;
}

/** Refuses a body that says it is too large before any of it is read, and one too many before memory runs out. */
export function createBodyBudget({ maxBodyBytes, maxBytesInFlight }: BodyBudgetOptions): RequestHandler {
  let inFlight = 0;
  return function admitBody(req, res, next) {
    const declared = declaredBytes(req);
    if (declared !== undefined && declared > maxBodyBytes) {
      return sendProblem(res, 413, { error: `The body is too large: ${maxBodyBytes} bytes is the limit.` });
    }
    const bytes = declared ?? maxBodyBytes;
    if (inFlight + bytes > maxBytesInFlight) {
      res.set("Retry-After", "1");
      return sendProblem(res, 429, { error: "Too many deliveries are being received.", hint: "Send it again." });
    }
    inFlight += bytes;
    res.once("close", () => {
      inFlight -= bytes;
    });
    next();
  };
}

/** `undefined` where the body may become as large as it is allowed to: sent in chunks, or compressed. */
function declaredBytes(req: Request): number | undefined {
  const length = req.get("content-length");
  const encoding = req.get("content-encoding") ?? "identity";
  if (length !== undefined) {
    const bytes = Number(length);
    return encoding.toLowerCase() === "identity" ? bytes : undefined;
  }
  return req.get("transfer-encoding") === undefined ? 0 : undefined;
}
