/**
 * Whether Go's `strconv.ParseBool` parses a text as true, which is how kluctl reads its variables and Secrets. Anything
 * else is false. Pure.
 */
export function isTrue(text: string | undefined): boolean {
  return text !== undefined && ["1", "t", "T", "TRUE", "true", "True"].includes(text);
}
