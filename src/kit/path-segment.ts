/** Whether the text can be one segment of a path, decoded: not empty, not relative, without characters that mean something there. */
export function isPathSegment(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return text !== "" && !/^\.\.?$|[/\\%;?#\x00-\x1f\x7f]/.test(text);
}
