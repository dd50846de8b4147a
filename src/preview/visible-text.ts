/** Text that cannot hide anything from the person who reads it. Pure. */

// All controls but tab and line feed, lone surrogates, and what is invisible or changes the direction of writing.
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Spelled as `\u202e` what nobody would see. */
export function makeVisible(text: string): string {
  return text.replace(hidden, spellOut);
}

/** One character as its number. */
export function spellOut(character: string): string {
  const point = character.codePointAt(0) ?? 0;
  return point > 0xff_ff ? `\\u{${point.toString(16)}}` : `\\u${point.toString(16).padStart(4, "0")}`;
}

/** The beginning, without half a character at its end. */
export function cut(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, "");
}

/** At most so many characters, and says how many more there were. */
export function cutLine(text: string, maxLength: number): string {
  const shown = cut(text, maxLength);
  return shown === text ? text : `${shown}… (${text.length - shown.length} more characters)`;
}
