/**
 * Measures the size of a commit's checkout. A few objects can stand for any number of files, because trees may share
 * subtrees.
 */
import { SourceError } from "../errors.ts";
import type { Git } from "./git.ts";

export interface TreeLimits {
  readonly files: number;
  readonly bytes: number;
}

/** Characters of a size and a line break; files of a gigabyte or more exceed the limits anyway. */
const printedOfEach = 12;

/**
 * Throws "refused" for a commit that is too large to check out. Nothing is written, and git is ended when its output
 * exceeds the limit.
 */
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
  const bytes = sizes.reduce((sum, size) => sum + (Number(size) || 0), 0); // a submodule's size is "-"
  if (sizes.length > most.files || bytes > most.bytes) throw refused();
}
