/** Text that cannot hide anything from the person who reads it. Pure. */

// All controls but tab and line feed, lone surrogates, and what is invisible or changes the direction of writing.
const hidden = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Spelled as `\u202e` what nobody would see. */
export function makeVisible(text: string): string {
  return text.replace(hidden, (character) => {
    const point = character.codePointAt(0) ?? 0;
    return point > 0xff_ff ? `\\u{${point.toString(16)}}` : `\\u${point.toString(16).padStart(4, "0")}`;
  });
}

/** At most so many characters, and says how many more there were. */
export function cutLine(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const cut = text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, "");
  return `${cut}… (${text.length - cut.length} more characters)`;
}
