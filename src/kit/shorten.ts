/** Limits a text to `max` characters (code points); if it is cut, the last one is an ellipsis. */
export function shorten(text: string, max: number): string {
  const characters = [...text];
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join("")}…`;
}
