/** The candidate nearest to a misspelled word; `undefined` if none is similar. Pure. */
export function findNearest(word: string, candidates: Iterable<string>): string | undefined {
  const most = Math.max(1, Math.floor(word.length / 3));
  return [...candidates]
    .map((candidate) => ({
      candidate,
      distance: distanceOf(word.toLowerCase(), candidate.toLowerCase()),
      shared: sharedPrefix(word, candidate), // the beginning of a word is rarely misspelled
    }))
    .filter(({ distance }) => distance <= most)
    .sort((one, other) => one.distance - other.distance || other.shared - one.shared)[0]?.candidate;
}

function distanceOf(word: string, candidate: string): number {
  const [short = "", long = ""] = [word, candidate].sort((one, other) => one.length - other.length);
  return short.length > 2 && long.startsWith(short) ? 1 : editDistance(word, candidate); // "warning" is "warn"
}

function sharedPrefix(one: string, other: string): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return length;
}

/** Levenshtein distance, computed row by row. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
