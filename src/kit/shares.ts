/**
 * Who is next where several parties share places: the one that has the fewest, and among those the one that was served
 * longest ago. A party may consist of others that share its places in the same way, like a repository of its pull requests.
 */
import { createBoundedMap } from "./bounded-map.ts";

/** A party within the party before it: a repository, and one of its pull requests. Empty: all are the same party. */
export type Party = readonly string[];

export interface Shares {
  /** Whether `one` is served before `other`, which came earlier. */
  isBefore(one: Party, other: Party): boolean;
  began(party: Party): void;
  ended(party: Party): void;
}

/** Parties whose last turn is remembered. */
const mostRemembered = 10_000;

export function createShares(): Shares {
  const running = new Map<string, number>();
  const served = createBoundedMap<number>({ entries: mostRemembered });
  let turn = 0;

  return {
    isBefore(one, other) {
      const [names, others] = [namesOf(one), namesOf(other)];
      for (const [at, name] of names.entries()) {
        const than = others[at];
        if (than === undefined || name === than) continue;
        const fewer = (running.get(name) ?? 0) - (running.get(than) ?? 0);
        if (fewer !== 0) return fewer < 0;
        const earlier = (served.get(name) ?? 0) - (served.get(than) ?? 0);
        return earlier < 0;
      }
      return false;
    },
    began(party) {
      turn++;
      for (const name of namesOf(party)) {
        running.set(name, (running.get(name) ?? 0) + 1);
        served.set(name, turn);
      }
    },
    ended(party) {
      for (const name of namesOf(party)) {
        const left = (running.get(name) ?? 0) - 1;
        if (left > 0) running.set(name, left);
        else running.delete(name);
      }
    },
  };
}

function namesOf(party: Party): string[] {
  return party.map((_, at) => JSON.stringify(party.slice(0, at + 1)));
}
