/** Milliseconds of a clock that never steps, and that all processes of this machine share. It stands still while the machine is suspended. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

let offset = -Infinity;

/**
 * Epoch milliseconds by the machine's clock, except that they never go back within a process: when that clock is set back, they
 * go on from where they were until the process ends.
 */
export function epochNow(): number {
  const elapsed = performance.now();
  offset = Math.max(offset, Date.now() - elapsed);
  return Math.floor(elapsed + offset);
}
