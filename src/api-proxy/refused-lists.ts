/**
 * Lists that an account may not have. kluctl asks for each kind that the cluster knows, whatever its account may read: most
 * of the requests of a diff are refused, and nearly always as they were a moment ago.
 */

export interface RefusedLists {
  find(account: string, path: string): Buffer | undefined;
  remember(account: string, path: string, answer: Buffer): void;
}

/** So much later than it was given, a new right may be noticed. */
const rememberedMs = 30_000;
const mostRemembered = 5_000;
const longestAnswer = 4_096;

export function createRefusedLists(now: () => number): RefusedLists {
  const refused = new Map<string, { readonly answer: Buffer; readonly at: number }>();
  const keyOf = (account: string, path: string) => JSON.stringify([account, path]);

  return {
    find(account, path) {
      const key = keyOf(account, path);
      const known = refused.get(key);
      if (known === undefined) return undefined;
      if (now() - known.at < rememberedMs) return known.answer;
      refused.delete(key);
      return undefined;
    },
    remember(account, path, answer) {
      if (answer.length > longestAnswer) return;
      if (refused.size >= mostRemembered) refused.clear();
      refused.set(keyOf(account, path), { answer, at: now() });
    },
  };
}
