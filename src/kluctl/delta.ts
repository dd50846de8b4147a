/** Decodes the deltas of a compacted result. Pure. */

/**
 * Applies a diff-match-patch delta. Operations are separated by tabs: `=n` keeps and `-n` skips n characters of the
 * base, `+text` inserts percent-encoded text. kluctl is written in Go and counts code points; JavaScript counts UTF-16
 * units.
 */
export function applyDelta(base: string, delta: string): string {
  const take = createTaker(base);
  let result = "";
  for (const operation of delta.split("\t")) {
    const value = operation.slice(1);
    switch (operation[0]) {
      case "=":
        result += take(toCount(value));
        break;
      case "-":
        take(toCount(value));
        break;
      case "+":
        result += decodeURIComponent(value);
        break;
      case undefined: // the delta between two empty texts
        break;
      default:
        throw new Error(`"${operation.slice(0, 20)}" is not a delta operation`);
    }
  }
  return result;
}

/**
 * Returns a function that takes the next `count` code points. In nearly all texts a code point is one UTF-16 unit, so
 * that string positions can be used directly.
 */
function createTaker(text: string): (count: number) => string {
  const points = /[\ud800-\udfff]/.test(text) ? Array.from(text) : undefined;
  const length = points?.length ?? text.length;
  let position = 0;
  return (count) => {
    const start = position;
    position += count;
    if (position > length) throw new Error("the delta is longer than its text");
    return points ? points.slice(start, position).join("") : text.slice(start, position);
  };
}

function toCount(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`"${text.slice(0, 20)}" is not a delta count`);
  return Number(text);
}
