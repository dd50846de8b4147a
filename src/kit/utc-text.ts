/** A time for people, without a time zone of theirs: `2026-12-31 05:00 UTC`, or with seconds. `at`: epoch milliseconds. */
export function utcText(at: number, precision: "minutes" | "seconds" = "minutes"): string {
  const length = precision === "minutes" ? 16 : 19;
  return `${new Date(at).toISOString().slice(0, length).replace("T", " ")} UTC`;
}
