/** The part of ASN.1's DER that a certificate needs. */

function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

export const sequence = (...contents: readonly Uint8Array[]) => der(0x30, ...contents);
export const set = (...contents: readonly Uint8Array[]) => der(0x31, ...contents);
export const octets = (...contents: readonly Uint8Array[]) => der(0x04, ...contents);
export const utf8 = (text: string) => der(0x0c, Buffer.from(text, "utf8"));
export const yes = der(0x01, Buffer.from([0xff]));
/** `[number] EXPLICIT`. */
export const tagged = (number: number, ...contents: readonly Uint8Array[]) => der(0xa0 + number, ...contents);
/** `[number] IMPLICIT` of a primitive value. */
export const plain = (number: number, content: Uint8Array) => der(0x80 + number, content);

/** A bit string; the last `unused` bits of the last byte do not count. */
export const bits = (content: Uint8Array, unused = 0) => der(0x03, Buffer.from([unused]), content);

/** A non-negative integer from its bytes. */
export function integer(bytes: Uint8Array): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const digits = first < 0 ? Buffer.from([0]) : bytes.subarray(first);
  return der(0x02, Buffer.from((digits[0] ?? 0) & 0x80 ? [0] : []), digits);
}

/** From the dotted notation. */
export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const base128 = (value: number): number[] =>
    value < 128 ? [value] : [...base128(Math.floor(value / 128)).map((digit) => digit | 0x80), value % 128];
  return der(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** As in certificates: with a two-digit year until 2049. */
export function time(date: Date): Buffer {
  const text = date.toISOString().replace(/[-:T]|\.\d+/g, "");
  return date.getUTCFullYear() < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes: number[] = [];
  for (let left = length; left > 0; left = Math.floor(left / 256)) bytes.unshift(left % 256);
  return [0x80 | bytes.length, ...bytes];
}
