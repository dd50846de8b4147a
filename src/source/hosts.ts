/**
 * What each git host gets of us: so many conversations at a time, and none for a while once it stopped to answer. A
 * dead host would otherwise occupy every worker, each waiting for its time-out, and hold up all other hosts.
 */
import { SourceError } from "../errors.ts";
import { createLimit, type Limit } from "../limit.ts";

export interface HostsDeps {
  readonly callsPerHost: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export interface Hosts {
  /** Runs the conversation when the host has a place for it. Rejects at once while the host is given a rest. */
  talk<T>(host: string, call: () => Promise<T>, options: Conversation): Promise<T>;
}

export interface Conversation {
  readonly signal?: AbortSignal | undefined;
  /** Ends waiting for a place, and nothing else. */
  readonly leave?: AbortSignal | undefined;
  /** Any living host answers it quickly: one that does not is given a rest. */
  readonly quick: boolean;
  /** Whether it failed because nothing came. */
  readonly isSilence: (error: unknown) => boolean;
}

const firstRestMs = 10_000;
const longestRestMs = 60_000;

interface Host {
  readonly limit: Limit;
  /** How often in a row it did not answer. */
  silences: number;
  restsFrom: number;
  /** After its rest one conversation finds out for all. */
  probed: boolean;
  answeredAt: number;
}

export function createHosts({ callsPerHost, now }: HostsDeps): Hosts {
  const hosts = new Map<string, Host>();

  function open(name: string): Host {
    const host = hosts.get(name) ?? {
      limit: createLimit(callsPerHost),
      silences: 0,
      restsFrom: -Infinity,
      probed: false,
      answeredAt: -Infinity,
    };
    hosts.set(name, host);
    return host;
  }

  function answered(host: Host): void {
    host.silences = 0;
    host.answeredAt = now();
  }

  function failed(host: Host, error: unknown, since: number, { signal, quick, isSilence }: Conversation): void {
    if (signal?.aborted) return; // nobody waited for the end of it
    if (!isSilence(error)) return answered(host); // a refusal is an answer as well
    // It answered others meanwhile: this one repository is its problem. Or it rests already.
    if (!quick || host.answeredAt > since || host.restsFrom >= since) return;
    host.silences++;
    host.restsFrom = now();
  }

  function rests({ silences, restsFrom, probed }: Host): boolean {
    if (silences === 0) return false;
    return probed || now() < restsFrom + Math.min(firstRestMs * 2 ** (silences - 1), longestRestMs);
  }

  async function converse<T>(host: Host, call: () => Promise<T>, options: Conversation): Promise<T> {
    if (rests(host)) {
      throw new SourceError("unreachable", "the server does not respond in time; retrying shortly");
    }
    const probe = host.silences > 0;
    if (probe) host.probed = true;
    const startedAt = now();
    try {
      const result = await call();
      answered(host);
      return result;
    } catch (error) {
      failed(host, error, startedAt, options);
      throw error;
    } finally {
      if (probe) host.probed = false;
    }
  }

  return {
    async talk(name, call, options) {
      const host = open(name);
      try {
        const { signal, leave } = options;
        const waiting = signal && leave ? AbortSignal.any([signal, leave]) : (signal ?? leave);
        return await host.limit.run(() => converse(host, call, options), { signal: waiting });
      } finally {
        if (host.limit.idle() && host.silences === 0) hosts.delete(name);
      }
    },
  };
}
