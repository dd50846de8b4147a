/**
 * Quantities of Kubernetes, such as `500m`, `2Gi` and `1e3`. They are only compared, so a double is exact enough.
 */

const written = /^([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?$/;

/** Those below 1 divide, because 1/1000 is not exact. */
const divisors: Readonly<Record<string, number>> = { n: 1e9, u: 1e6, m: 1e3 };
const factors: Readonly<Record<string, number>> = {
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** `undefined` if it is not a quantity. */
export function parseQuantity(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value !== "string") return undefined;
  const [, digits, unit = "", exponent = "0"] = written.exec(value) ?? [];
  if (digits === undefined) return undefined;
  return (Number(digits) / (divisors[unit] ?? 1)) * (factors[unit] ?? 1) * 10 ** Number(exponent);
}

/** The same amount in other units may differ in the last bits. */
const rounding = 1e-9;

/** False if one of them is not a quantity. */
export function isLess(value: unknown, than: unknown): boolean {
  const [one, other] = [parseQuantity(value), parseQuantity(than)];
  return one !== undefined && other !== undefined && other - one > rounding * Math.abs(other);
}
