/** Pseudorandom numbers that repeat for the same seed. */

export interface Random {
  /** From 0 up to but excluding `end`. */
  below(end: number): number;
  pick<T>(from: readonly T[]): T;
  /** True in this percentage of cases. */
  chance(percent: number): boolean;
}

/**
 * Mulberry32, a generator with 32 bits of state: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c
 */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (end: number): number => Math.floor(next() * end);
  return {
    below,
    pick: (from) => from[below(from.length)] as (typeof from)[number],
    chance: (percent) => below(100) < percent,
  };
}
