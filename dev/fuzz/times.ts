/**
 * Latencies counted in steps of a tenth of a millisecond, so that a million of them are summarized as quickly as ten.
 */

export interface Times {
  add(ms: number): void;
  /** Milliseconds, at most a tenth too low; `NaN` without values. */
  quantile(share: number): number;
  longest(): number;
}

const perMs = 10;
/** Anything longer than a minute counts as a minute. */
const most = 60_000 * perMs;

export function createTimes(): Times {
  const counts = new Uint32Array(most + 1);
  let [total, longest] = [0, 0];
  return {
    add(ms) {
      const tenths = Math.min(Math.floor(ms * perMs), most);
      counts[tenths] = (counts[tenths] ?? 0) + 1;
      total++;
      longest = Math.max(longest, ms);
    },
    quantile(share) {
      let left = Math.max(1, Math.ceil(share * total));
      const found = counts.findIndex((count) => (left -= count) <= 0);
      return found === -1 ? NaN : found / perMs;
    },
    longest: () => longest,
  };
}
