/**
 * Aborts when the run shall end: Ctrl-C, a closed terminal, a polite kill, or the end of the process that started us
 * (npm does not hand on everything). A second Ctrl-C ends at once; even then no part is left behind.
 */
export function endOfRun(): AbortSignal {
  const controller = new AbortController();
  const end = (signal: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(130);
    process.stderr.write(`\nEnding (${signal}) …\n`);
    controller.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end);
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent && !controller.signal.aborted) controller.abort();
  }, 1_000).unref();
  return controller.signal;
}
