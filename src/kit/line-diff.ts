/** A line-by-line diff of two texts. Pure. */
import { diffArrays } from "diff";

export interface DiffLine {
  readonly sign: "+" | "-" | " ";
  /** Its index in the new text, or in the old text if it was removed. */
  readonly at: number;
}

/** Texts that differ in more lines than this are shown as replaced: finding the shortest diff would take too long. */
const maxEditLength = 500;

/** All lines of both texts in reading order, as the shortest diff. */
export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  const changes = diffArrays([...before], [...after], { maxEditLength }) ?? [
    { removed: true, added: false, count: before.length },
    { removed: false, added: true, count: after.length },
  ];
  let [oldAt, newAt] = [0, 0];
  return changes.flatMap(({ removed, added, count }) => {
    const sign = removed ? "-" : added ? "+" : " ";
    const from = removed ? oldAt : newAt;
    if (!added) oldAt += count;
    if (!removed) newAt += count;
    return Array.from({ length: count }, (_, i) => ({ sign, at: from + i }) as const);
  });
}
