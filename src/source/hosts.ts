/**
 * Limits the use of each git host: the number of concurrent calls, and a pause after it stopped responding. Otherwise a
 * dead host would occupy every worker, each waiting for its timeout, and block all other hosts.
 */
import { SourceError } from "../errors.ts";
import { createLimit, type Limit } from "../kit/limit.ts";

export interface HostsDeps {
  readonly callsPerHost: number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

export interface Hosts {
  /** Runs the call when the host has a free slot. Rejects at once while the host is paused. */
  talk<T>(host: string, call: () => Promise<T>, options: Conversation): Promise<T>;
}

export interface Conversation {
  readonly signal?: AbortSignal | undefined;
  /** Only ends waiting for a slot; a running call is not affected. */
  readonly leave?: AbortSignal | undefined;
  /** A live host responds to such a call quickly: a host that does not is paused. */
  readonly quick: boolean;
  /** Whether the call failed because the host did not respond. */
  readonly isSilence: (error: unknown) => boolean;
}

const firstRestMs = 10_000;
const longestRestMs = 60_000;

interface Host {
  readonly limit: Limit;
  /** Number of consecutive calls without a response. */
  silences: number;
  restsFrom: number;
  /** Set while one call probes the host after its pause, on behalf of all others. */
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
    if (signal?.aborted) return; // the caller gave up before the call ended
    if (!isSilence(error)) return answered(host); // a rejection is a response too
    // Ignore it if the host answered other calls meanwhile (only this repository has a problem), or is paused already.
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
