/** Comparing what a stranger sent with what we know, in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";

/** Both sides go through a hash first, so that not even the length of the known one can be measured. */
function equalInConstantTime(given: string, known: string): boolean {
  const mix = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(mix(given), mix(known));
}

/** Tries all of them, whichever fits, so that time does not tell which one did. */
export function fitsAny(given: string, known: readonly string[]): boolean {
  return known.map((one) => equalInConstantTime(given, one)).includes(true);
}

/** As fitsAny, for signatures: their length is known to everybody, and what they are made of is hashed already. */
export function signatureFitsAny(given: string, known: readonly string[]): boolean {
  const bytes = Buffer.from(given);
  const fits = (one: string) => bytes.length === one.length && timingSafeEqual(bytes, Buffer.from(one));
  return known.map(fits).includes(true);
}
