/** Merges one commit into another, in a clone, so that the mirror stays identical to the remote. */
import { SourceError } from "../errors.ts";
import type { Authorship, ChangedPaths, MergeSource } from "../model.ts";
import { checkOut } from "./clone.ts";
import { type Git, type GitCall, GitFailure } from "./git.ts";

/**
 * More paths than this are reported as incomplete, which counts as "any path": comparing them would cost more than
 * checking the deployments.
 */
const maxPaths = 10_000;

/** Anybody can write a first line without end; such a commit has no words. */
const mostOfSubject = 64 * 1024;

/** Fixed, so that the same head and base always give the identical merge commit. */
const committer = {
  GIT_AUTHOR_NAME: "Towline",
  GIT_AUTHOR_EMAIL: "towline@localhost",
  GIT_AUTHOR_DATE: "@0 +0000",
  GIT_COMMITTER_NAME: "Towline",
  GIT_COMMITTER_EMAIL: "towline@localhost",
  GIT_COMMITTER_DATE: "@0 +0000",
};

/**
 * Merges in the clone's object store, without a working tree, and checks out the result. Returns the paths in conflict,
 * or what has changed.
 */
export async function mergeInto(
  git: Git,
  { root, head, base, isMerged = false }: { root: string } & Pick<MergeSource, "head" | "base" | "isMerged">,
  signal: AbortSignal,
): Promise<{ readonly conflicts: readonly string[] } | { readonly changed: ChangedPaths }> {
  const at = { tree: root };
  if (isMerged) {
    const changed = await findChanges(git, { at, from: base, to: head }, signal);
    await checkOut(git, root, head, signal);
    return { changed };
  }
  const printed = await git(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, head], {
    at,
    protocols: [],
    answers: [1],
    signal,
  }).catch((error: unknown) => {
    if (!(error instanceof GitFailure) || !error.stderr.includes("unrelated histories")) throw error;
    throw new SourceError("refused", "the two commits have no common history, so they cannot be merged");
  });
  const [tree = "", ...conflicts] = split(printed);
  if (conflicts.length > 0) return { conflicts };

  const changed = await findChanges(git, { at, from: base, to: tree }, signal);
  const commit = await git(["commit-tree", tree, "-p", base, "-p", head, "-m", "Merge, to see what it changes"], {
    at,
    protocols: [],
    env: committer,
    signal,
  });
  await checkOut(git, root, commit.trim(), signal);
  return { changed };
}

/** Lists the files that differ between two commits or trees. */
export async function findChanges(
  git: Git,
  { at, from, to }: { at: GitCall["at"]; from: string; to: string },
  signal: AbortSignal,
): Promise<ChangedPaths> {
  const printed = await git(["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", from, to], {
    ...(at && { at }),
    protocols: [],
    signal,
  });
  const paths = split(printed);
  const complete = paths.length <= maxPaths;
  return { complete, paths: complete ? paths : [] };
}

/** Reads who wrote a commit that the mirror has, and the first line of its message. */
export async function readAuthorship(
  git: Git,
  mirror: string,
  commit: string,
  signal: AbortSignal,
): Promise<Authorship> {
  if (!/^[0-9a-f]{40,64}$/.test(commit)) throw new SourceError("ref-not-found", "this is not the hash of a commit");
  const printed = await git(["log", "-1", "--format=%s%x00%an", commit], {
    at: { gitDir: mirror },
    protocols: [],
    mostPrinted: mostOfSubject,
    signal,
  });
  const [subject = "", author = ""] = printed.trim().split("\0");
  return { subject, author };
}

function split(printed: string): string[] {
  return printed.split("\0").filter((part) => part !== "");
}
