/** Whether something grows that should stay as it is. Pure. */

export interface Bound {
  /** Of what it is in the middle. */
  readonly share: number;
  /** And that much besides. */
  readonly more: number;
}

/** By how much the values of the second half rise from its begin to its end, by a straight line through them. */
export function riseOf(values: readonly number[]): number {
  const half = secondHalf(values);
  const [middle, mean] = [(half.length - 1) / 2, half.reduce((sum, value) => sum + value, 0) / half.length];
  const covariance = half.reduce((sum, value, at) => sum + (at - middle) * (value - mean), 0);
  const variance = half.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
  return variance === 0 ? 0 : (covariance / variance) * (half.length - 1);
}

export function grows(values: readonly number[], { share, more }: Bound): boolean {
  const half = secondHalf(values).toSorted((a, b) => a - b);
  return riseOf(values) > (half[half.length >> 1] ?? 0) * share + more;
}

/** What is warmed up and filled in the first one is no growth. */
function secondHalf(values: readonly number[]): readonly number[] {
  return values.slice(values.length >> 1);
}
