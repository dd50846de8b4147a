/** Cuts blocks of lines to the available room, and says how much is left out. */
import type { PreviewObject } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { toLines } from "./text.ts";

export interface Lines {
  readonly lines: readonly string[];
  readonly leftOut: number;
}

/** Returns the first lines of an object's diff, ready for a code block. */
export function diffOf(object: PreviewObject, limit: number): Lines {
  const diff = object.diff ?? "";
  const lines = toLines(firstLines(diff, limit)).map((line) => (/^(?:[-+ ]|@@)/.test(line) ? line : ` ${line}`));
  const leftOut = Math.max(0, lineCount(object) - lines.length);
  return { lines: leftOut > 0 ? [...lines, `  … ${plural(leftOut, "more line")}`] : lines, leftOut };
}

/** The number of lines of an object's diff, including those that were not stored. */
export function lineCount({ diff, linesLeftOut = 0 }: PreviewObject): number {
  if (!diff) return linesLeftOut;
  let count = 1;
  for (let at = diff.indexOf("\n"); at !== -1 && at < diff.length - 1; at = diff.indexOf("\n", at + 1)) count++;
  return count + linesLeftOut;
}

function firstLines(text: string, limit: number): string {
  let end = -1;
  for (let lines = 0; lines < limit; lines++) {
    end = text.indexOf("\n", end + 1);
    if (end === -1) return text;
  }
  return text.slice(0, end);
}

/** Returns the first lines that fit. */
export function cutLines(lines: readonly string[], room: number): Lines {
  const ending = 24;
  const total = lines.reduce((sum, line) => sum + line.length + 1, 0);
  if (total <= room) return { lines, leftOut: 0 };
  let used = ending;
  const shown = lines.findIndex((line) => (used += line.length + 1) > room);
  const leftOut = lines.length - Math.max(shown, 0);
  return { lines: [...lines.slice(0, Math.max(shown, 0)), `… ${plural(leftOut, "more line")}`], leftOut };
}
