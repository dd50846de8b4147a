/** For tests of code that must not block: elapsed time depends on how busy the machine is, CPU time does not. */

/** Returns the CPU time of this process so far in milliseconds. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
