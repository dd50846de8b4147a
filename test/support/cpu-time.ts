/** For tests of what must not be kept busy: of the clock a busy machine takes as much as it likes. */

/** What this process has worked so far, in milliseconds. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
