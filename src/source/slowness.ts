/**
 * Tracks which remotes respond slowly. A job that only waits for another job's conversation can then give up its worker
 * and be retried: otherwise a host that sends a byte now and then would occupy every worker.
 */
import { RemoteBusyError } from "../errors.ts";
import type { RepoId } from "../model.ts";

export interface Slowness {
  /** Runs a conversation with the remote. */
  talk<T>(remote: Talker, conversation: () => Promise<T>): Promise<T>;
  /**
   * Waits for something that other conversations may delay. The signal aborts with a RemoteBusyError while a
   * conversation with this repository is slow, or while all of the host's slots are taken by slow conversations.
   */
  wait<T>(remote: Talker, waiting: (leave: AbortSignal) => Promise<T>): Promise<T>;
  /** How long the oldest slow conversation has taken, in milliseconds. */
  slowForMs(repo: RepoId): number | undefined;
}

/** The repository and host of a conversation. */
export interface Talker {
  readonly repo: RepoId;
  readonly hostAndPort: string;
}

export interface SlownessDeps {
  /** Duration after which a conversation counts as slow. */
  readonly slowMs: number;
  readonly callsPerHost: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export function createSlowness({ slowMs, callsPerHost, now }: SlownessDeps): Slowness {
  /** Slow conversations → when they began. */
  const slow = new Map<Talker, number>();
  const waiting = new Map<AbortController, Talker>();

  /** Age of the oldest matching conversation; `undefined` if fewer than `least` match. */
  function ageOf(isMeant: (talker: Talker) => boolean, least = 1): number | undefined {
    const began = [...slow].filter(([talker]) => isMeant(talker)).map(([, startedAt]) => startedAt);
    return began.length < least ? undefined : now() - Math.min(...began);
  }

  function slowForMs(repo: RepoId): number | undefined {
    return ageOf((talker) => talker.repo === repo);
  }

  function sendAwayIfSlow(controller: AbortController, { repo, hostAndPort }: Talker): void {
    const ms = slowForMs(repo) ?? ageOf((talker) => talker.hostAndPort === hostAndPort, callsPerHost);
    if (ms !== undefined) controller.abort(new RemoteBusyError(repo, ms));
  }

  return {
    async talk({ repo, hostAndPort }, conversation) {
      const talker = { repo, hostAndPort };
      const startedAt = now();
      const timer = setTimeout(() => {
        slow.set(talker, startedAt);
        for (const [controller, remote] of waiting) sendAwayIfSlow(controller, remote);
      }, slowMs);
      try {
        return await conversation();
      } finally {
        clearTimeout(timer);
        slow.delete(talker);
      }
    },

    async wait(remote, wait) {
      const controller = new AbortController();
      sendAwayIfSlow(controller, remote);
      waiting.set(controller, remote);
      try {
        return await wait(controller.signal);
      } finally {
        waiting.delete(controller);
      }
    },

    slowForMs,
  };
}
