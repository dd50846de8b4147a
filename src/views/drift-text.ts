/** kluctl's summary of drift, such as `2 chg, 1 orp`, in whole words: `2 changed, 1 orphaned`. Pure. */
export function longDrift(drift: string): string {
  return drift.replaceAll(/\b(?:chg|orp|del|err)\b/g, (word) => long[word] ?? word);
}

const long: Readonly<Record<string, string>> = { chg: "changed", orp: "orphaned", del: "deleted", err: "errors" };
