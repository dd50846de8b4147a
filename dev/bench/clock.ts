/** Epoch milliseconds with fractions: comparable with the times in logs and between processes of this machine. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
