/** Epoch milliseconds with fractions: comparable with the log's times, and between processes of this machine. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
