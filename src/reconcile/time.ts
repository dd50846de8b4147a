/** Times as the Kubernetes API and kluctl keep them: RFC 3339 in whole seconds. */
export function rfc3339(ms: number): string {
  return new Date(Math.floor(ms / 1_000) * 1_000).toISOString().replace(".000Z", "Z");
}

/** Epoch milliseconds. What cannot be read is long ago, so that nothing is put off by it for ever. */
export function timeOf(text: string): number {
  return Date.parse(text) || 0;
}
