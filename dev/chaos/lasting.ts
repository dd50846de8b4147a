/** Ends the states that faults bring about. Faults of one state may overlap: it then lasts until the later end. */

export interface Lasting {
  /** Ends the state after this time; without one, it lasts until everything is healed. */
  last(state: string, forMs: number | undefined, end: () => unknown): void;
  /** No state ends by itself any more. */
  stop(): void;
}

interface State {
  readonly endsAt: number;
  readonly timer?: NodeJS.Timeout | undefined;
}

export function createLasting(): Lasting {
  const states = new Map<string, State>();
  let isStopped = false;
  return {
    last(state, forMs = Infinity, end) {
      if (isStopped) return;
      const endsAt = performance.now() + forMs;
      const known = states.get(state);
      if (known !== undefined && known.endsAt >= endsAt) return;
      clearTimeout(known?.timer);
      const finish = () => {
        states.delete(state);
        end();
      };
      states.set(state, { endsAt, timer: forMs === Infinity ? undefined : setTimeout(finish, forMs) });
    },
    stop() {
      isStopped = true;
      for (const { timer } of states.values()) clearTimeout(timer);
      states.clear();
    },
  };
}
