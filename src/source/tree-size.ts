/** How much a commit would be, checked out: a few objects can stand for any number of files, as trees may share subtrees. */
import { SourceError } from "../errors.ts";
import type { Git } from "./git.ts";

export interface TreeLimits {
  readonly files: number;
  readonly bytes: number;
}

/** A size and a line break; files of more than a gigabyte are too much anyway. */
const printedOfEach = 12;

/** Throws "refused" for a commit that is too much to check out. Nothing is written, and git is ended when it has said too much. */
export async function checkTreeSize(
  git: Git,
  { mirror, commit, most }: { mirror: string; commit: string; most: TreeLimits },
  signal: AbortSignal,
): Promise<void> {
  const refused = () =>
    new SourceError(
      "refused",
      `commit ${commit.slice(0, 7)} has more than ${most.files} files or ${Math.round(most.bytes / 1024 ** 2)} MiB, more than a preview can check out`,
    );
  const printed = await git(["ls-tree", "-r", "--full-tree", "--format=%(objectsize)", commit], {
    at: { gitDir: mirror },
    protocols: [],
    mostPrinted: most.files * printedOfEach,
    signal,
  }).catch((error: unknown) => {
    throw error instanceof SourceError ? refused() : error;
  });
  const sizes = printed.trim().split("\n");
  const bytes = sizes.reduce((sum, size) => sum + (Number(size) || 0), 0); // of a submodule: "-"
  if (sizes.length > most.files || bytes > most.bytes) throw refused();
}
