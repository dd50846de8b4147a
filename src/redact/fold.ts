/**
 * Reduces text to the characters that are the same in every notation, so that a secret is found whether it is verbatim,
 * quoted, escaped, indented, wrapped, in a diff, or in one of base64's alphabets. Pure.
 */

/** Code units, and for each the range of the original text that it comes from. */
export interface Folded {
  readonly units: Uint16Array;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

export interface FoldOptions {
  /**
   * Keeps symbols such as `%`, `$` and `/` too, and drops only white space, quotes and backslashes: for secrets with
   * few letters and digits.
   */
  readonly symbols?: boolean;
  /** Decodes `\n`, `\u00e9`, `\xe9` and `%C3%A9`, or `&quot;` and `&#34;`. */
  readonly unescape?: "escapes" | "entities";
}

const escapes = {
  escapes: /\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|U([0-9A-Fa-f]{8})|[\s\S])|(?:%[0-9A-Fa-f]{2})+/y,
  entities: /&(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});/y,
};
const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const controlEscapes = new Set("abefnrtv0");

export function fold(text: string, options: FoldOptions = {}): Folded {
  const units = new Uint16Array(text.length);
  const starts = new Int32Array(text.length);
  const ends = new Int32Array(text.length);
  let length = 0;
  eachUnit(text, options, (unit, start, end) => {
    units[length] = unit;
    starts[length] = start;
    ends[length++] = end;
  });
  return { units: units.subarray(0, length), starts, ends };
}

export function foldedText(text: string, options: FoldOptions = {}): string {
  let folded = "";
  let units: number[] = [];
  eachUnit(text, options, (unit) => {
    if (units.push(unit) < 8_192) return;
    folded += String.fromCharCode(...units);
    units = [];
  });
  return folded + String.fromCharCode(...units);
}

/** Calls back with each code unit that is kept, and the range of the text that it comes from. */
function eachUnit(
  text: string,
  { symbols = false, unescape }: FoldOptions,
  onUnit: (unit: number, start: number, end: number) => void,
): void {
  const kept = symbols ? isPrintable : isAlphanumeric;
  const keep = (unit: number, start: number, end: number) => {
    if (kept(unit)) onUnit(unit, start, end);
  };
  const escape = unescape && escapes[unescape];
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const match = escape && mayEscape(unit) ? matchAt(escape, text, at) : null;
    if (match === null) {
      keep(unit, at, at + 1);
      continue;
    }
    const end = at + match[0].length;
    const meant = unescaped(match);
    for (let i = 0; i < meant.length; i++) keep(meant.charCodeAt(i), at, end);
    at = end - 1;
  }
}

const backslash = 0x5c;

/** Backslash, percent sign or ampersand. */
function mayEscape(unit: number): boolean {
  return unit === backslash || unit === 0x25 || unit === 0x26;
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function unescaped([whole, four, two, eight]: RegExpExecArray): string {
  if (whole.startsWith("%")) return Buffer.from(whole.replaceAll("%", ""), "hex").toString("utf8");
  if (whole.startsWith("&#")) return fromCodePoint(Number(whole.slice(2, -1).replace("x", "0x")));
  if (whole.startsWith("&")) return entities[whole.slice(1, -1)] ?? whole;
  const hex = four ?? two ?? eight;
  if (hex !== undefined) return fromCodePoint(Number.parseInt(hex, 16));
  const escaped = whole.slice(1);
  return controlEscapes.has(escaped) ? "" : escaped;
}

function fromCodePoint(point: number): string {
  return point <= 0x10_ff_ff ? String.fromCodePoint(point) : "";
}

function isAlphanumeric(unit: number): boolean {
  if (unit >= 0x80) return !isInvisible(unit);
  return (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x30 && unit <= 0x39) || (unit >= 0x41 && unit <= 0x5a);
}

function isPrintable(unit: number): boolean {
  if (unit >= 0x80) return !isInvisible(unit);
  return unit > 0x20 && unit !== 0x7f && unit !== 0x22 && unit !== 0x27 && unit !== backslash;
}

/**
 * White space, control and formatting characters outside of ASCII, which may be between letters without being visible.
 */
function isInvisible(unit: number): boolean {
  return (
    unit <= 0xa0 ||
    unit === 0xad ||
    unit === 0x61c ||
    unit === 0x1680 ||
    unit === 0x180e ||
    (unit >= 0x2000 && unit <= 0x200f) ||
    (unit >= 0x2028 && unit <= 0x202f) ||
    (unit >= 0x205f && unit <= 0x206f) ||
    unit === 0x3000 ||
    unit === 0xfeff
  );
}
