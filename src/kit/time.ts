/** Times as Kubernetes and kluctl store them: RFC 3339 in whole seconds. */
export function rfc3339(ms: number): string {
  return new Date(Math.floor(ms / 1_000) * 1_000).toISOString().replace(".000Z", "Z");
}

/** Returns epoch milliseconds. Unreadable times count as long ago, so that they delay nothing forever. */
export function timeOf(text: string): number {
  return Date.parse(text) || 0;
}
