/** A line-by-line diff of two texts. Pure. */

export interface DiffLine {
  readonly sign: "+" | "-" | " ";
  /** Its index in the new text, or in the old text if it was removed. */
  readonly at: number;
}

/** Texts that differ in more lines than this are shown as replaced: finding the shortest diff would take too long. */
const maxEdits = 500;

/** All lines of both texts in reading order, as the shortest diff (Myers' algorithm). */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const shortest = Math.min(before.length, after.length) - head;
  while (tail < shortest && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;

  const old = before.slice(head, before.length - tail);
  const renewed = after.slice(head, after.length - tail);
  const middle = diffMiddle(old, renewed).map(({ sign, at }) => ({ sign, at: at + head }));
  return [...kept(0, head), ...middle, ...kept(after.length - tail, after.length)];
}

function kept(from: number, to: number): DiffLine[] {
  return range(from, to, " ");
}

function range(from: number, to: number, sign: DiffLine["sign"]): DiffLine[] {
  return Array.from({ length: to - from }, (_, i) => ({ sign, at: from + i }));
}

function diffMiddle(before: readonly string[], after: readonly string[]): DiffLine[] {
  const trace = findEdits(before, after);
  if (trace === undefined) return [...range(0, before.length, "-"), ...range(0, after.length, "+")];
  const lines: DiffLine[] = [];
  let [x, y] = [before.length, after.length];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const furthest = trace[edits]!;
    const diagonal = x - y;
    const down = goesDown(furthest, diagonal, edits);
    const from = down ? diagonal + 1 : diagonal - 1;
    const startX = edits === 0 ? 0 : furthest.get(from)!;
    const startY = edits === 0 ? 0 : startX - from;
    while (x > startX && y > startY) {
      x--;
      lines.push({ sign: " ", at: --y });
    }
    if (edits === 0) break;
    if (down) lines.push({ sign: "+", at: --y });
    else lines.push({ sign: "-", at: --x });
  }
  return lines.toReversed();
}

/** For each number of edits, how far each diagonal reached into `before` with one edit fewer. */
function findEdits(before: readonly string[], after: readonly string[]): ReadonlyMap<number, number>[] | undefined {
  const furthest = new Map([[1, 0]]);
  const trace: ReadonlyMap<number, number>[] = [];
  for (let edits = 0; edits <= Math.min(before.length + after.length, maxEdits); edits++) {
    trace.push(new Map(furthest));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = goesDown(furthest, diagonal, edits) ? furthest.get(diagonal + 1)! : furthest.get(diagonal - 1)! + 1;
      let y = x - diagonal;
      while (x < before.length && y < after.length && before[x] === after[y]) {
        x++;
        y++;
      }
      furthest.set(diagonal, x);
      if (x >= before.length && y >= after.length) return trace;
    }
  }
  return undefined;
}

function goesDown(furthest: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true;
  return diagonal !== edits && furthest.get(diagonal - 1)! < furthest.get(diagonal + 1)!;
}
