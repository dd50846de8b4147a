/** Durations and sizes as people write them. Pure. */

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const unitBytes: Readonly<Record<string, number>> = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };

/** Milliseconds of a Go duration (`90s`, `1m30s`); a number without a unit is refused, as in Go. */
export function parseDurationMs(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/([\d.]+)(ms|s|m|h)/g))
    total += Number(amount) * (unitMs[unit ?? ""] ?? NaN);
  return Math.round(total);
}

/** Bytes of `512`, `10Ki`, `10MiB`: powers of 1024, as Kubernetes and most proxies mean them. */
export function parseBytes(text: string): number | undefined {
  const [, amount, unit = ""] = /^(\d+) ?(?:([KMG])i?B?)?$/i.exec(text) ?? [];
  return amount === undefined ? undefined : Number(amount) * (unitBytes[unit.toUpperCase()] ?? NaN);
}
