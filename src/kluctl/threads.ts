/** How many threads kluctl may compute with, learnt from how long it took the time before. */
import { createKept } from "../kept.ts";
import { type Key, keyText } from "../model.ts";

/**
 * A run this short has hardly anything to spread over cores, and what its threads tell each other costs more: with one, a
 * `diff` of three objects takes 4 % less CPU time, and 1 % longer. Milliseconds.
 */
const shortMs = 500;
/** With one thread; else what is about as long as that would have another number each time. */
const longMs = 2 * shortMs;
/** What is forgotten is learnt again with the next run. */
const mostRemembered = 10_000;

const one = { GOMAXPROCS: "1" };

export interface Threads {
  /** The variables of such a run. */
  of(deployment: Key, command: string): Readonly<Record<string, string>>;
  note(deployment: Key, command: string, ms: number): void;
}

export function createThreads(): Threads {
  const short = createKept<true>(mostRemembered);
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
