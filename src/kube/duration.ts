/** Durations as Go writes and reads them (`1h30m0s`): what `metav1.Duration` holds. Pure. */

const unitNs: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  "\u00b5s": 1_000n, // both of Unicode's letters for micro, as in Go
  "\u03bcs": 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};
const part = /(?=\.?\d)(\d*)(?:\.(\d*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y;
const mostNs = 2n ** 63n - 1n; // Go keeps nanoseconds in an int64: about 292 years

/** Nanoseconds, or `undefined` for what Go's `time.ParseDuration` refuses. */
export function parseDurationNs(text: string): bigint | undefined {
  const negative = text.startsWith("-");
  const unsigned = text.replace(/^[+-]/, "");
  if (unsigned === "0") return 0n;
  if (unsigned === "") return undefined;
  let total = 0n;
  part.lastIndex = 0;
  while (part.lastIndex < unsigned.length) {
    const [, whole = "", fraction = "", unit = ""] = part.exec(unsigned) ?? [];
    const ns = unitNs[unit];
    if (ns === undefined) return undefined;
    // What is smaller than a nanosecond is cut off.
    total += BigInt(whole || 0) * ns + (BigInt(fraction || 0) * ns) / 10n ** BigInt(fraction.length);
  }
  if (total > mostNs + (negative ? 1n : 0n)) return undefined;
  return negative ? -total : total;
}

/** Milliseconds, or `undefined` for what Go would not take as a duration. */
export function parseDuration(text: string): number | undefined {
  const ns = parseDurationNs(text);
  return ns === undefined ? undefined : Number(ns) / 1e6;
}

/** As Go's `Duration.String` writes it. */
export function formatDurationNs(ns: bigint): string {
  if (ns === 0n) return "0s";
  if (ns < 0n) return `-${formatDurationNs(-ns)}`;
  if (ns < 1_000n) return `${ns}ns`;
  if (ns < 1_000_000n) return `${decimal(ns, 3)}\u00b5s`;
  if (ns < 1_000_000_000n) return `${decimal(ns, 6)}ms`;
  const minutes = ns / 60_000_000_000n;
  const seconds = `${decimal(ns % 60_000_000_000n, 9)}s`;
  if (minutes === 0n) return seconds;
  return minutes < 60n ? `${minutes}m${seconds}` : `${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

/** As Go's `Duration.String` writes it. */
export function formatDuration(ms: number): string {
  return formatDurationNs(BigInt(Math.round(ms * 1e6)));
}

/** `value / 10^places`, without trailing zeros. */
function decimal(value: bigint, places: number): string {
  const digits = value.toString().padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "");
}
