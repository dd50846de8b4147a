/** A word to people while the work is under way, if it takes long. */

export interface Early {
  /** What there is to say became more than a number. */
  again(): void;
  /** Resolves when nothing more will be said. */
  stop(): Promise<void>;
}

export interface EarlyDeps {
  readonly afterMs: number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<unknown>;
  /** Never rejects. */
  readonly tell: () => Promise<void>;
}

/** Tells once after a while, and again if asked to after that. Never once the signal has aborted. */
export function startEarly({ afterMs, sleep, tell }: EarlyDeps, signal: AbortSignal): Early {
  const stopping = new AbortController();
  const ended = AbortSignal.any([signal, stopping.signal]);
  let late = false;
  let telling = Promise.resolve();

  const again = (): void => {
    if (!late) return;
    telling = telling.then(() => (ended.aborted ? undefined : tell()));
  };
  void sleep(afterMs, ended).then(
    () => {
      late = true;
      again();
    },
    () => undefined, // it was over before
  );

  return {
    again,
    async stop() {
      stopping.abort();
      await telling;
    },
  };
}
