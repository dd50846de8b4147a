/**
 * Returns a signal that aborts when the run is to end: on Ctrl-C, a closed terminal, SIGTERM, or the end of the parent
 * process (npm does not forward all signals). A second Ctrl-C ends the process at once; even then no part keeps
 * running.
 */
export function endOfRun(): AbortSignal {
  const controller = new AbortController();
  const end = (signal: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(130);
    process.stderr.write(`\nStopping (${signal}) …\n`);
    controller.abort();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, end);
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent && !controller.signal.aborted) controller.abort();
  }, 1_000).unref();
  return controller.signal;
}
