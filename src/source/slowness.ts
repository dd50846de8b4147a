/**
 * Which remotes take long to answer. Whoever only waits for the conversation of somebody else can leave then, and come
 * again: a host that sends a byte now and then would otherwise hold every worker with its jobs.
 */
import { RemoteBusyError } from "../errors.ts";
import type { RepoId } from "../model.ts";

export interface Slowness {
  /** Has a conversation with the remote. */
  talk<T>(remote: Talker, conversation: () => Promise<T>): Promise<T>;
  /**
   * Waits for something that others may hold up. The signal aborts with a RemoteBusyError as long as one of their
   * conversations with this remote is slow, or as many with its host as it may have at a time.
   */
  wait<T>(remote: Talker, waiting: (leave: AbortSignal) => Promise<T>): Promise<T>;
  /** How long the oldest slow conversation has taken. */
  slowForMs(repo: RepoId): number | undefined;
}

/** What is slow: a repository, of a host. */
export interface Talker {
  readonly repo: RepoId;
  readonly hostAndPort: string;
}

export interface SlownessDeps {
  /** A conversation is slow from then on. */
  readonly slowMs: number;
  readonly callsPerHost: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export function createSlowness({ slowMs, callsPerHost, now }: SlownessDeps): Slowness {
  /** Slow conversations → when they began. */
  const slow = new Map<Talker, number>();
  const waiting = new Map<AbortController, Talker>();

  /** How long the oldest of them has taken. */
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
