/** What the failures of HTTP requests say, whatever they were sent to. Pure. */

/** The wait in milliseconds that `Retry-After` asks for, in seconds or as a date; `undefined` if it asks for none. */
export function parseRetryAfter(headers: Headers, now: number): number | undefined {
  const text = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  // `Date.parse` takes a wrong number for a year.
  if (text === "" || /^[-+\d.e]+$/i.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(at - now, 0);
}

/** For a request without a response: the system's error code, such as `ECONNREFUSED`. */
export function codeOf(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && typeof cause.code === "string") return cause.code;
  }
  return "connection lost";
}
