/** Tables for a terminal. Pure. */

/** Aligns the columns. Each row ends with a newline; the last column is not padded. */
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

/** Cuts lines to the width of the terminal, because wrapped lines break the alignment. Without a width nothing is cut. */
export function fit(text: string, columns: number | undefined): string {
  if (columns === undefined) return text;
  const cut = (line: string) => {
    const letters = [...line];
    return letters.length <= columns ? line : `${letters.slice(0, Math.max(0, columns - 1)).join("")}…`;
  };
  return text.split("\n").map(cut).join("\n");
}

/** Removes control characters and line breaks from foreign text. */
export function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").trim();
}
