const unitBytes: Readonly<Record<string, number>> = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };

/** Parses `512`, `10Ki`, `10MiB` to bytes. Units are powers of 1024, as in most proxies. */
export function parseBytes(text: string): number | undefined {
  const [, amount, unit = ""] = /^(\d+) ?(?:([KMG])i?B?)?$/i.exec(text) ?? [];
  return amount === undefined ? undefined : Number(amount) * (unitBytes[unit.toUpperCase()] ?? NaN);
}
