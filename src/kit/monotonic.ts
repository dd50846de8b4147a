/**
 * Milliseconds of a monotonic clock that all processes of this machine share. It stops while the machine is suspended.
 */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

let offset = -Infinity;

/**
 * Epoch milliseconds by the machine's clock, except that they never go back within a process: if the clock is set back,
 * they continue from their last value until the process ends.
 */
export function epochNow(): number {
  const elapsed = performance.now();
  offset = Math.max(offset, Date.now() - elapsed);
  return Math.floor(elapsed + offset);
}
