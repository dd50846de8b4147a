/** Work that is planned by whatever happens, and done once for all of that. */
export interface Planned {
  /** Does the work after this time, unless it is planned already. */
  plan(afterMs: number): void;
  /** The work is not done any more, however it is planned. */
  stop(): void;
}

/** `work` reports its own failures; what it plans while it runs is done again. The timer does not keep the process running. */
export function createPlanned(work: () => Promise<void>): Planned {
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  return {
    plan(afterMs) {
      if (isStopped) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        void work();
      }, afterMs).unref();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
