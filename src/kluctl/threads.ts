/** Decides how many threads kluctl may compute with, from the duration of the previous run. */
import { createBoundedMap } from "../kit/bounded-map.ts";
import { type Key, keyText } from "../model.ts";

/**
 * A run this short gains little from several cores, and synchronizing its threads costs more than that: with one
 * thread, a `diff` of three objects takes 4 % less CPU time and 1 % longer. Milliseconds.
 */
const shortMs = 500;
/**
 * The limit for runs with one thread. It is higher, so that the number of threads of a run that takes about `shortMs`
 * does not alternate. Milliseconds.
 */
const longMs = 2 * shortMs;
/** Entries; a forgotten one is learnt again with the next run. */
const mostRemembered = 10_000;

const one = { GOMAXPROCS: "1" };

export interface Threads {
  /** The environment variables for such a run. */
  of(deployment: Key, command: string): Readonly<Record<string, string>>;
  note(deployment: Key, command: string, ms: number): void;
}

export function createThreads(): Threads {
  const short = createBoundedMap<true>({ entries: mostRemembered });
  const idOf = (deployment: Key, command: string) => `${keyText(deployment)} ${command}`;
  return {
    of: (deployment, command) => (short.get(idOf(deployment, command)) ? one : {}),
    note(deployment, command, ms) {
      const id = idOf(deployment, command);
      if (ms > (short.get(id) ? longMs : shortMs)) short.delete(id);
      else short.set(id, true);
    },
  };
}
