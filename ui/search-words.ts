/** Searching by words, in any order and case. Pure. */

/** Empty if nothing is searched for. */
export function searchWords(text: string): readonly string[] {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Whether the text contains all words. */
export function hasWords(text: string, words: readonly string[]): boolean {
  const said = text.toLowerCase();
  return words.every((word) => said.includes(word));
}
