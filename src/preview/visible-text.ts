/** Makes text safe to read: nothing in it is hidden from the reader. */
import { redactText } from "../redact/redact-text.ts";

// All controls except tab and line feed, lone surrogates, and characters that are invisible or change the writing
// direction.
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Spells invisible characters out, such as `\u202e`. */
export function makeVisible(text: string): string {
  return text.replace(hidden, spellOut);
}

/** Masks secrets first: spelled out, they would not be recognized. */
export async function redactVisibly(text: string, known: readonly string[]): Promise<string> {
  return makeVisible(await redactText(text, known));
}

/** Spells a character as its number. */
export function spellOut(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  return point > 0xff_ff ? `\\u{${point.toString(16)}}` : `\\u${point.toString(16).padStart(4, "0")}`;
}

/** Returns the beginning, without half a character at its end. */
export function cut(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, "");
}

/** Longer messages would need more room than the changes. */
const longestError = 500;

/** An error of the base branch, which the comment mentions in one line. */
export function toErrorLine(message: string): string {
  return cutLine(message.replaceAll(/\s+/g, " ").trim(), longestError);
}

/** Limits a text to `maxLength` characters, and says how many were cut. */
export function cutLine(text: string, maxLength: number): string {
  const shown = cut(text, maxLength);
  return shown === text ? text : `${shown}… (${text.length - shown.length} more characters)`;
}
