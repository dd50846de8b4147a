/**
 * Limits how many values a project can have compared with a value of a Secret. The API server compares whatever a
 * project writes with what is live, and shows the result in many ways: the value in the response, the owners of fields,
 * a conflict, a rejected change of an immutable Secret. So attempts are counted before they are sent, whatever the
 * response would be.
 */
import { createHmac, createSecretKey, randomBytes } from "node:crypto";
import type { Place } from "./hide-in-secret.ts";

export interface Guesses {
  /** Whether this is one of the first three texts that were written at this place. */
  allow(text: Buffer, at: Place): boolean;
  /** Number of texts that are remembered. */
  count(): number;
}

/** A run writes one, unless a template makes a different value each time. */
const mostTexts = 3;
/** For all places together. */
const mostOfAll = 50_000;

export function createGuesses(): Guesses {
  const key = createSecretKey(randomBytes(32)); // made once: making it takes longer than a hash
  const places = new Map<string, Set<string>>();
  let count = 0;
  // The texts themselves may be secret.
  const hash = (of: Buffer | string) => createHmac("sha256", key).update(of).digest("base64url").slice(0, 22);

  return {
    allow(text, at) {
      const place = hash(JSON.stringify(at));
      const tried = places.get(place) ?? new Set<string>();
      const name = hash(text);
      if (tried.has(name)) return true;
      if (tried.size >= mostTexts || count >= mostOfAll) return false;
      places.set(place, tried.add(name));
      count++;
      return true;
    },
    count: () => count,
  };
}
