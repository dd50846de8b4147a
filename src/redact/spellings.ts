/** How a secret value may be written down. Pure. */
import { foldedText, type FoldOptions } from "./fold.ts";
import { minLength, type Pattern } from "./matcher.ts";

/** Patterns for texts folded to letters and digits, and for texts that keep their symbols. */
export interface Patterns {
  readonly plain: Pattern[];
  readonly symbolic: Pattern[];
}

/**
 * Quoting, indenting, wrapping, escaping once and the choice of base64's alphabet are taken care of by folding; here is
 * what changes the letters and digits themselves.
 */
export function patternsOf(value: Buffer): Patterns {
  const text = value.toString("utf8");
  const written = Buffer.from(text, "utf8").equals(value) ? writtenForms(text) : [];
  const plain = new Map<string, Pattern>();
  const symbolic = new Map<string, Pattern>();
  const add = (form: string, opaque: boolean) => {
    const folded = foldedText(form);
    if (folded.length >= minLength) {
      if (!plain.has(folded)) plain.set(folded, { folded, opaque, ...(opaque ? noEnds : endsOf(form)) });
      return;
    }
    const loose = foldedText(form, { symbols: true });
    if (loose.length >= minLength && !symbolic.has(loose)) {
      symbolic.set(loose, { folded: loose, opaque, ...(opaque ? noEnds : endsOf(form, { symbols: true })) });
    }
  };
  for (const form of written) add(form, false);
  if (value.length >= minLength) {
    for (const form of base64Forms(value)) add(form, true);
    const hex = value.toString("hex");
    add(hex, true);
    add(hex.toUpperCase(), true);
  }
  return { plain: [...plain.values()], symbolic: [...symbolic.values()] };
}

const noEnds = { head: "", tail: "" };

function writtenForms(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  return [text, json, JSON.stringify(json).slice(1, -1), encodeURIComponent(text.toWellFormed()), htmlForm(text)];
}

function htmlForm(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

/**
 * Base64 packs three bytes into four characters, so a value inside a longer text (`user:password`, a JSON document) looks
 * different for each of the three places it can begin at. Characters that mix in neighbouring bytes are left off.
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
