import { createHash } from "node:crypto";

/** 72 bits: nobody can bring about a collision that harms anybody but themselves. */
export function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 12);
}
