/** Reports an early status if the work takes long. */

/** When the first report is due. */
export const earlyAfterMs = 2_000;

export interface Early {
  /** Reports again, because the report has gained more than a number. */
  again(): void;
  /** Resolves when no further report will be sent. */
  stop(): Promise<void>;
}

export interface EarlyDeps {
  readonly afterMs: number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  /** Never rejects. */
  readonly announce: () => Promise<void>;
}

/** Reports once after a while, and after that on each call of `again`. Never reports once the signal has aborted. */
export function startEarly({ afterMs, sleep, announce }: EarlyDeps, signal: AbortSignal): Early {
  const stopping = new AbortController();
  const ended = AbortSignal.any([signal, stopping.signal]);
  let late = false;
  let announcing = Promise.resolve();

  const again = (): void => {
    if (!late) return;
    announcing = announcing.then(() => (ended.aborted ? undefined : announce()));
  };
  void sleep(afterMs, ended).then(
    () => {
      late = true;
      again();
    },
    () => undefined, // the work ended first
  );

  return {
    again,
    async stop() {
      stopping.abort();
      await announcing;
    },
  };
}
