/** Milliseconds of a clock that never steps, and that all processes of this machine share. It stands still while the machine is suspended. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
