/**
 * Lists that an account may not have. kluctl asks for each kind that the cluster knows, whatever its account may read: most
 * of the requests of a diff are refused, and nearly always as they were a moment ago.
 */

/** By the address as a client wrote it, and only after that one was let through. */
export interface RefusedLists {
  find(account: string, url: string): Buffer | undefined;
  remember(account: string, url: string, answer: Buffer): void;
}

/** So much later than it was given, a new right may be noticed. */
const rememberedMs = 30_000;
const mostRemembered = 5_000;
const longestAnswer = 4_096;

export function createRefusedLists(now: () => number): RefusedLists {
  const refused = new Map<string, { readonly answer: Buffer; readonly at: number }>();
  const keyOf = (account: string, url: string) => JSON.stringify([account, url]);

  return {
    find(account, url) {
      const key = keyOf(account, url);
      const known = refused.get(key);
      if (known === undefined) return undefined;
      if (now() - known.at < rememberedMs) return known.answer;
      refused.delete(key);
      return undefined;
    },
    remember(account, url, answer) {
      if (answer.length > longestAnswer) return;
      if (refused.size >= mostRemembered) refused.clear();
      refused.set(keyOf(account, url), { answer, at: now() });
    },
  };
}
