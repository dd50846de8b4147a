/** Counts the files that a reader of one push has to read, from what was executed. Pure. */

/** A file of which functions were called. */
export interface Entered {
  readonly file: string;
  readonly functions: readonly string[];
}

export interface SourceFile {
  /** The lines without comments and blank lines. */
  readonly code: number;
  /** All lines. */
  readonly lines: number;
  /** The files of ours of which it uses more than types. */
  readonly uses: readonly string[];
}

export interface CountedFile extends Omit<SourceFile, "uses"> {
  readonly file: string;
  /** Its place in the documented list, from 1; absent: a helper. */
  readonly step?: number | undefined;
  /** The only file that uses this helper. */
  readonly helperOf?: string | undefined;
}

export interface Spine {
  /** What counts, in the order in which it was first entered. */
  readonly counted: readonly CountedFile[];
  /** Executed too, but used by several files, or reached through a port only; with the files that use it. */
  readonly beside: readonly { readonly file: string; readonly usedBy: readonly string[] }[];
  /** Steps of the list that were not executed. */
  readonly missed: readonly string[];
}

export interface SpineInput {
  readonly entered: readonly Entered[];
  /** The files of the list, in order. */
  readonly steps: readonly string[];
  /** Files that only connect: through them, a helper is used by whoever calls it. They count as part of the way. */
  readonly seams: readonly string[];
  /** Every source file that may use another. Those that create and connect everything are left out. */
  readonly sources: ReadonlyMap<string, SourceFile>;
}

/**
 * A file counts if it was executed and is a step, a seam, or a helper that a single file uses, which counts itself. What
 * others use as well is vocabulary that a reader meets elsewhere.
 */
export function countSpine({ entered, steps, seams, sources }: SpineInput): Spine {
  const usedBy = invert(sources);
  const executed = new Set(entered.map(({ file }) => file));
  const counts = new Set([...steps, ...seams].filter((file) => executed.has(file)));
  const isHelper = (file: string) => {
    const [user, ...others] = usedBy.get(file) ?? [];
    return user !== undefined && others.length === 0 && counts.has(user);
  };
  for (let before = -1; before !== counts.size;) {
    before = counts.size;
    for (const file of executed) if (isHelper(file)) counts.add(file);
  }
  const counted = [...executed].flatMap((file): CountedFile[] => {
    const source = sources.get(file);
    if (!counts.has(file) || source === undefined) return [];
    const { code, lines } = source;
    const step = steps.indexOf(file) + 1;
    if (step > 0) return [{ file, code, lines, step }];
    return [{ file, code, lines, helperOf: seams.includes(file) ? undefined : usedBy.get(file)?.[0] }];
  });
  const beside = [...executed].filter((file) => !counts.has(file));
  return {
    counted,
    beside: beside.map((file) => ({ file, usedBy: usedBy.get(file) ?? [] })),
    missed: steps.filter((file) => !executed.has(file)),
  };
}

function invert(sources: ReadonlyMap<string, SourceFile>): ReadonlyMap<string, readonly string[]> {
  const usedBy = new Map<string, string[]>();
  for (const [file, { uses }] of sources) {
    for (const used of new Set(uses)) usedBy.set(used, [...(usedBy.get(used) ?? []), file]);
  }
  return usedBy;
}
