/** Work that is planned by whatever happens, and done once for all of that. */
export interface Planned {
  /** Does the work after this time, unless it is planned for an earlier one. */
  plan(afterMs: number): void;
  /** The work is not done any more, however it is planned. */
  stop(): void;
  /** Does at once what is planned, and nothing after that. Resolves when all work has ended. */
  finish(): Promise<void>;
}

/** `work` reports its own failures; what it plans while it runs is done again. The timer does not keep the process running. */
export function createPlanned(work: () => Promise<void>): Planned {
  let next: { readonly timer: NodeJS.Timeout; readonly at: number } | undefined;
  const running = new Set<Promise<void>>();
  let isStopped = false;

  function start(): void {
    next = undefined;
    const doing = work().finally(() => running.delete(doing));
    running.add(doing);
  }

  return {
    plan(afterMs) {
      if (isStopped) return;
      const at = performance.now() + afterMs;
      if (next !== undefined && next.at <= at) return;
      clearTimeout(next?.timer);
      next = { at, timer: setTimeout(start, afterMs).unref() };
    },
    stop() {
      isStopped = true;
      clearTimeout(next?.timer);
    },
    async finish() {
      isStopped = true;
      clearTimeout(next?.timer);
      if (next !== undefined) start();
      await Promise.all(running);
    },
  };
}
