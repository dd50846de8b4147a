/** What a text says as JSON; `undefined` for what is none. Nobody gets the parser's words, which quote the text. Pure. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
