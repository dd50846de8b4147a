/**
 * Evaluates the result of `npm run mutate` for one file: compares the mutants that no test detects with those that may
 * survive.
 */

/** The fields of a mutant that are used here. Lines and columns count from 1. */
export interface Mutant {
  readonly status: string;
  readonly location: { readonly start: Position; readonly end: Position };
  readonly replacement?: string | undefined;
}

interface Position {
  readonly line: number;
  readonly column: number;
}

/** Mutants that no test can or should notice. */
export interface Allowed {
  readonly why: string;
  /** In the format of `describeMutant`. Each entry stands for one mutant: equal lines need one entry each. */
  readonly mutants: readonly string[];
}

export interface FileVerdict {
  readonly killed: number;
  /** Killed because the tests did not end in time: the mutant is endless, or the machine was very busy. */
  readonly timedOut: number;
  readonly total: number;
  /** Survived, but may not. */
  readonly survivors: readonly Survivor[];
  /** Listed as allowed to survive, but killed: the list is out of date. */
  readonly outdated: readonly string[];
}

export interface Survivor {
  readonly line: number;
  readonly mutant: string;
}

const statusesAlive = ["Survived", "NoCoverage"];
const statusesKilled = ["Killed", "Timeout"];

export function judge(source: string, mutants: readonly Mutant[], allowed: readonly Allowed[]): FileVerdict {
  const alive = mutants
    .filter(({ status }) => statusesAlive.includes(status))
    .map((mutant) => ({ line: mutant.location.start.line, mutant: describeMutant(source, mutant) }));
  const killed = mutants.filter(({ status }) => statusesKilled.includes(status)).length;
  const timedOut = mutants.filter(({ status }) => status === "Timeout").length;
  const survivors: Survivor[] = [];
  const unused = allowed.flatMap(({ mutants }) => mutants);
  for (const survivor of alive) {
    const entry = unused.indexOf(survivor.mutant);
    if (entry === -1) survivors.push(survivor);
    else unused.splice(entry, 1);
  }
  return { killed, timedOut, total: killed + alive.length, survivors, outdated: unused };
}

/**
 * `if ([-a < b-]{+a <= b+}) return;`: the line in the format of `git diff --word-diff`, which stays valid when lines
 * move.
 */
export function describeMutant(source: string, { location, replacement = "" }: Mutant): string {
  const { start, end } = location;
  const lines = source.split("\n");
  const span = lines.slice(start.line - 1, end.line);
  const before = (span[0] ?? "").slice(0, start.column - 1);
  const last = span.at(-1) ?? "";
  const after = last.slice(end.column - 1);
  const was = span.join("\n").slice(before.length, span.join("\n").length - after.length);
  return inOneLine(`${before}[-${was}-]{+${replacement}+}${after}`);
}

function inOneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
