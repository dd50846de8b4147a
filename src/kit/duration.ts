/** Durations in Go's format (`1h30m0s`), as in a `metav1.Duration` and in the configuration. Pure. */

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "\u00b5s": 1e-3, // both Unicode letters for micro, as in Go
  "\u03bcs": 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const part = /(?=\.?\d)(\d*)(?:\.(\d*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y;
const mostMs = 2 ** 63 / 1e6; // Go keeps nanoseconds in an int64: about 292 years

/** Milliseconds, or `undefined` for what Go's `time.ParseDuration` rejects, such as a number without a unit. */
export function parseDuration(text: string): number | undefined {
  const unsigned = text.replace(/^[+-]/, "");
  if (unsigned === "0") return 0;
  if (unsigned === "") return undefined;
  let total = 0;
  part.lastIndex = 0;
  while (part.lastIndex < unsigned.length) {
    const [, whole = "", fraction = "", unit = ""] = part.exec(unsigned) ?? [];
    const ms = unitMs[unit];
    if (ms === undefined) return undefined;
    total += Number(`${whole || 0}.${fraction || 0}`) * ms;
  }
  if (total >= mostMs) return undefined;
  return text.startsWith("-") ? -total : total;
}
