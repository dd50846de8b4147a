import { createHash } from "node:crypto";

/** For names of any length, from outside, in the names of our keys in Redis. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
