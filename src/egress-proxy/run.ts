/** Tracks what one run may reach, how much of its limits it has used, and what was refused. */
import type { Readable } from "node:stream";
import { type HostRule, matchesRule, parseHostRule, type Target } from "../kit/host-rule.ts";

export interface EgressLimits {
  /** Concurrent connections of one run. */
  readonly connections: number;
  /** Bytes per run, both directions together. */
  readonly bytes: number;
  /** A connection without data for this long is closed. */
  readonly idleMs: number;
  readonly connectMs: number;
}

/** A refused request; the message is shown to users as the reason for a failed preview. */
export class RefusedError extends Error {
  override name = "RefusedError";
}

/** A connection may stay open for long after it was used. */
const servedForMs = 5_000;
/** A hostile run could cause any number of refusals. */
const mostRefusals = 10;

export interface EgressRun {
  readonly signal: AbortSignal;
  readonly operators: readonly HostRule[];
  /** Throws RefusedError. */
  allow(target: Target, defaultPort: number): void;
  /** Registers a connection from the run, like `hold`. Throws RefusedError if there are too many. */
  enter(socket: Readable): void;
  /** Counts the bytes read from the socket, and closes it when the run ends. */
  hold(socket: Readable): void;
  refused(why: string): void;
  /** Whether it was connected or something was transferred in the last seconds. */
  isServing(): boolean;
  refusals(): readonly string[];
  close(): void;
}

/** `operators`: the hosts that every preview may reach. */
export function createEgressRun(
  allowed: readonly string[],
  operators: readonly string[],
  limits: EgressLimits,
): EgressRun {
  const rules = toRules([...allowed, ...operators]);
  const closing = new AbortController();
  const entered = new Set<Readable>();
  const held = new Set<Readable>();
  const refusals = new Set<string>();
  let bytes = 0;
  let servedAt = -Infinity;

  function refused(why: string): void {
    if (refusals.size < mostRefusals) refusals.add(why);
  }

  function close(): void {
    closing.abort(new Error("the run is over"));
    for (const socket of held) socket.destroy();
  }

  function count(more: number): void {
    servedAt = performance.now();
    bytes += more;
    if (bytes <= limits.bytes) return;
    refused(`a preview cannot transfer more than ${Math.floor(limits.bytes / 1024 ** 2)} MiB`);
    close();
  }

  function hold(socket: Readable): void {
    held.add(socket);
    socket.once("close", () => held.delete(socket));
    socket.on("data", (chunk: Buffer) => count(chunk.length));
    if (closing.signal.aborted) socket.destroy();
  }

  return {
    signal: closing.signal,
    operators: toRules(operators),
    allow(target, defaultPort) {
      if (rules.some((rule) => matchesRule(target, rule, defaultPort))) return;
      const name = target.port === defaultPort ? target.host : `${target.host}:${target.port}`;
      throw new RefusedError(`previews cannot reach ${name}; an operator can add it to preview.hosts`);
    },
    enter(socket) {
      if (entered.size >= limits.connections) {
        throw new RefusedError(`a preview can have at most ${limits.connections} connections at once`);
      }
      entered.add(socket);
      servedAt = performance.now();
      socket.once("close", () => entered.delete(socket));
      hold(socket);
    },
    hold,
    refused,
    isServing: () => performance.now() - servedAt < servedForMs,
    refusals: () => [...refusals],
    close,
  };
}

function toRules(texts: readonly string[]): HostRule[] {
  return texts.map(parseHostRule).filter((rule) => rule !== undefined);
}
