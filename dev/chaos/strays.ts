/** Errors that no code waits for: they belong to the episode in which they happen, and must not end the whole run. */
import type { EventEmitter } from "node:events";

export interface Strays {
  /** With their stacks. */
  readonly errors: readonly string[];
  stop(): void;
}

/** Collects them until it is stopped. Without a collector, such an error ends the process. */
export function collectStrays(from: EventEmitter = process): Strays {
  const errors: string[] = [];
  const collect = (error: unknown) => void errors.push(describeError(error));
  from.on("unhandledRejection", collect).on("uncaughtException", collect);
  return {
    errors,
    stop: () => void from.off("unhandledRejection", collect).off("uncaughtException", collect),
  };
}

/** The error with its stack, if it has one. */
export function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
