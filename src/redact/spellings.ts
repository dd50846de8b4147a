/** The ways in which a secret value may be written. Pure. */
import { isUtf8 } from "node:buffer";
import { foldedText, type FoldOptions } from "./fold.ts";
import { minLength, type Pattern } from "./matcher.ts";

/** Patterns for texts folded to letters and digits, and for texts that keep their symbols. */
export interface Patterns {
  readonly plain: Pattern[];
  readonly symbolic: Pattern[];
}

/**
 * Returns the notations that change a value's letters and digits. Folding handles the others: quoting, indenting,
 * wrapping, a single level of escaping, and base64's alphabets.
 */
export function patternsOf(value: Buffer): Patterns {
  const patterns: Patterns = { plain: [], symbolic: [] };
  const text = value.toString("utf8");
  const isText = isUtf8(value);
  for (const form of isText ? writtenForms(text) : []) {
    const plain = foldedText(form);
    if (plain.length >= minLength) {
      patterns.plain.push({ folded: plain, opaque: false, ...endsOf(form) });
      continue;
    }
    const symbolic = foldedText(form, { symbols: true });
    if (symbolic.length < minLength) continue;
    patterns.symbolic.push({ folded: symbolic, opaque: false, ...endsOf(form, { symbols: true }) });
  }
  if (value.length < minLength) return patterns;
  const inJson = isText ? Buffer.from(JSON.stringify(text).slice(1, -1)) : value;
  for (const form of opaqueForms(value, inJson)) {
    const plain = form.replace(/[+/]/g, "");
    const ends = { opaque: true, head: "", tail: "" };
    if (plain.length >= minLength) patterns.plain.push({ folded: plain, ...ends });
    else patterns.symbolic.push({ folded: form, ...ends });
  }
  return patterns;
}

function writtenForms(text: string): Set<string> {
  const json = JSON.stringify(text).slice(1, -1);
  const jsonInJson = JSON.stringify(json).slice(1, -1);
  const query = text.replaceAll(" ", "+"); // folding decodes the other escapes in a query
  return new Set([text, json, jsonInJson, encodeURIComponent(text.toWellFormed()), query]);
}

/** Bytes. Longer values are rarely encoded twice, and would take long to search for. */
const maxPackedTwice = 1_000;

function opaqueForms(value: Buffer, inJson: Buffer): string[] {
  const hex = value.toString("hex");
  // Encoded once, as in a Secret's `data`, and that encoded in base64 again.
  const twice = value.length > maxPackedTwice ? [] : [Buffer.from(value.toString("base64").replace(/=+$/, ""))];
  const packed = [...(inJson.equals(value) ? [value] : [value, inJson]), ...twice];
  return [hex, hex.toUpperCase(), ...packed.flatMap(base64Forms)];
}

/**
 * Base64 encodes three bytes as four characters, so a value within a longer text (`user:password`, a JSON document) has
 * three different forms, depending on its position. Characters that also depend on adjacent bytes are left out.
 */
function base64Forms(value: Buffer): string[] {
  return [0, 1, 2].map((shift) => {
    const shifted = Buffer.concat([Buffer.alloc(shift), value]).toString("base64");
    return shifted.slice(Math.ceil((shift * 8) / 6), Math.floor(((shift + value.length) * 8) / 6));
  });
}

function endsOf(form: string, options: FoldOptions = {}): { head: string; tail: string } {
  const text = form.trim();
  const keeps = (character: string) => foldedText(character, options) !== "";
  let [from, to] = [0, text.length];
  while (from < to && !keeps(text[from]!)) from++;
  while (to > from && !keeps(text[to - 1]!)) to--;
  return { head: text.slice(0, from), tail: text.slice(to) };
}
