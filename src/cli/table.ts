/** Columns that line up, for a terminal. Pure. */

/** Each row ends with a line end; the last column is not padded. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** Lines no longer than a terminal is wide: one that is broken no longer lines up. Without a terminal they stay whole. */
export function fit(text: string, columns: number | undefined): string {
  if (columns === undefined) return text;
  const cut = (line: string) => {
    const letters = [...line];
    return letters.length <= columns ? line : `${letters.slice(0, Math.max(0, columns - 1)).join("")}…`;
  };
  return text.split("\n").map(cut).join("\n");
}

/** What others have written, without what would move a terminal's cursor; on one line. */
export function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").trim();
}
