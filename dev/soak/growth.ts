/** Detects growth of a value that should stay constant. Pure. */

export interface Bound {
  /** As a share of the value in the middle. */
  readonly share: number;
  /** Added to the share. */
  readonly more: number;
}

/** The rise of a straight line through the values of the second half, from its start to its end. */
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

/** The first half is warm-up, which does not count as growth. */
function secondHalf(values: readonly number[]): readonly number[] {
  return values.slice(values.length >> 1);
}
