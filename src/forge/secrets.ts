/** Compares untrusted input with secrets in constant time. */
import { createHash, timingSafeEqual } from "node:crypto";

/** Both sides are hashed first, so that not even the length of the secret can be measured. */
function equalInConstantTime(given: string, known: string): boolean {
  const mix = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(mix(given), mix(known));
}

/** Compares with every secret even after a match, so that the time does not reveal which one matched. */
export function fitsAny(given: string, known: readonly string[]): boolean {
  return known.map((one) => equalInConstantTime(given, one)).includes(true);
}

/** Like fitsAny, for signatures: their length is public, and they are made of hashed data already. */
export function signatureFitsAny(given: string, known: readonly string[]): boolean {
  const bytes = Buffer.from(given);
  const fits = (one: string) => bytes.length === one.length && timingSafeEqual(bytes, Buffer.from(one));
  return known.map(fits).includes(true);
}
