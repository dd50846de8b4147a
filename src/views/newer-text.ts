/** Says in lists that a newer commit waits. Also for the browser. Pure. */
import type { NewerCommit } from "./newer-commit.ts";

/** What a deployment waits for or what is wrong, and that a newer commit waits. */
export function withNewerCommit(
  { why, commit }: { readonly why: string | undefined; readonly commit: string | undefined },
  newer: Pick<NewerCommit, "commit" | "why"> | undefined,
): string | undefined {
  // That of an approval is in the column beside it. Any other was reconciled since.
  if (newer === undefined || newer.commit === commit) return why;
  const short = newer.commit.slice(0, 7);
  if (why?.includes(short)) return why;
  const waits = `newer commit ${short} waits: ${newer.why}`;
  if (why === undefined) return waits;
  return why.includes(newer.why) ? `${why} (newer commit ${short})` : `${why}; ${waits}`;
}
