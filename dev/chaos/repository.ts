/** A repository as its users know it: remembers the files of each commit, so that the checker need not ask git. */
import type { WorkCopy } from "../parts/work-copy.ts";
import type { Push } from "./history.ts";
import type { Tree } from "./render.ts";

/** Path → content; `undefined` removes the file. */
export type Changes = ReadonlyMap<string, string | undefined>;

export interface Repository {
  readonly name: string;
  /** The URL that a KluctlDeployment names. */
  readonly url: string;
  /** `undefined` while the branch is deleted. */
  head(): string | undefined;
  treeAt(commit: string): Tree;
  /** The current files of the branch. */
  tree(): Tree;
  /** Commits of the branch, oldest first. */
  commits(): readonly string[];
  /** Makes a commit of each change and pushes all of them at once. */
  push(changes: readonly Changes[], message: string): Promise<Push>;
  /** Force-pushes an earlier commit of the branch. */
  setBack(commit: string): Promise<Push>;
  /** Replaces the last commit with a new one that has the same files, and force-pushes. */
  rewrite(): Promise<Push>;
  deleteBranch(): Promise<Push>;
  restoreBranch(): Promise<Push>;
  /**
   * Commits on top of the branch's head, or of the other branch's, and pushes the result as the head of that other
   * branch.
   */
  propose(branch: string, changes: ReadonlyMap<string, string>, from: "head" | "branch"): Promise<string>;
  /** Records that the host merged something into the branch; `at` is a time before that. */
  takeOver(at: number): Promise<Push>;
  /** The result of merging the commit into the branch; `undefined` if it cannot be merged. */
  mergeOf(commit: string): Promise<Merge | undefined>;
}

export interface Merge {
  /** Files in which the merge differs from the branch. */
  readonly paths: readonly string[];
  readonly tree: Tree;
}

export interface RepositoryOptions {
  readonly name: string;
  readonly url: string;
  readonly copy: WorkCopy;
  readonly files: Tree;
  /** Called before the push becomes visible to anybody. */
  readonly onPush: (push: Push) => void;
}

export async function createRepository({ name, url, copy, files, onPush }: RepositoryOptions): Promise<Repository> {
  const trees = new Map<string, Tree>();
  const merges = new Map<string, Promise<Merge | undefined>>();
  let line: string[] = [];
  let deleted = false;

  async function upload(paths: readonly string[] = []): Promise<Push> {
    const push: Push = { repo: name, commit: head(), at: Date.now(), paths };
    onPush(push);
    deleted = false;
    await copy.git("push", "--quiet", "--force", "origin", "HEAD:refs/heads/main");
    return push;
  }

  async function commitFiles(changes: Changes, message: string): Promise<string> {
    const before = trees.get(line.at(-1) ?? "") ?? new Map<string, string>();
    const commit = await copy.commit(Object.fromEntries(changes), message);
    const files = [...new Map([...before, ...changes])];
    trees.set(commit, new Map(files.flatMap(([path, text]) => (text === undefined ? [] : [[path, text] as const]))));
    line.push(commit);
    return commit;
  }

  async function readTree(treeish: string): Promise<Tree> {
    const paths = (await copy.git("ls-tree", "-r", "--name-only", treeish)).split("\n");
    const read = async (path: string) => [path, `${await copy.git("show", `${treeish}:${path}`)}\n`] as const;
    return new Map(await Promise.all(paths.map(read)));
  }

  async function differing(one: string, other: string): Promise<string[]> {
    return (await copy.git("diff", "--name-only", one, other)).split("\n").filter(Boolean);
  }

  async function merged(onto: string, commit: string): Promise<Merge | undefined> {
    const tree = await copy.git("merge-tree", "--write-tree", onto, commit).catch(() => undefined);
    if (tree === undefined) return undefined;
    return { paths: await differing(onto, tree), tree: await readTree(tree) };
  }

  const head = () => line.at(-1) as string;
  await commitFiles(files, "Begin");
  await upload();

  return {
    name,
    url,
    head: () => (deleted ? undefined : head()),
    treeAt: (commit) => trees.get(commit) ?? new Map(),
    tree: () => trees.get(head()) ?? new Map(),
    commits: () => line,
    async push(changes, message) {
      for (const change of changes) await commitFiles(change, message);
      // Hosts list no files of a branch that is new.
      return upload(deleted ? [] : [...new Set(changes.flatMap((change) => [...change.keys()]))]);
    },
    async setBack(commit) {
      line = line.slice(0, line.indexOf(commit) + 1);
      await copy.git("reset", "--quiet", "--hard", commit);
      return upload();
    },
    async rewrite() {
      const tree = trees.get(head()) as Tree;
      await copy.git("commit", "--quiet", "--amend", "--allow-empty", "-m", `Rewritten at ${Date.now()}`);
      const commit = await copy.git("rev-parse", "HEAD");
      trees.set(commit, tree);
      line = [...line.slice(0, -1), commit];
      return upload();
    },
    async deleteBranch() {
      const push: Push = { repo: name, commit: undefined, at: Date.now(), paths: [] };
      onPush(push);
      deleted = true;
      await copy.git("push", "--quiet", "origin", ":refs/heads/main");
      return push;
    },
    restoreBranch: () => upload(),
    async propose(branch, changes, from) {
      await copy.git("checkout", "--quiet", ...(from === "head" ? ["-B", branch, "main"] : [branch]));
      const commit = await copy.commit(Object.fromEntries(changes), "Propose");
      await copy.git("push", "--quiet", "--force", "origin", `HEAD:refs/heads/${branch}`);
      await copy.git("checkout", "--quiet", "main");
      return commit;
    },
    async takeOver(at) {
      const before = head();
      await copy.git("fetch", "--quiet", "origin", "main");
      await copy.git("reset", "--quiet", "--hard", "FETCH_HEAD");
      const commit = await copy.git("rev-parse", "HEAD");
      trees.set(commit, await readTree(commit));
      line.push(commit);
      const push = { repo: name, commit, at, paths: await differing(before, commit) };
      onPush(push);
      return push;
    },
    mergeOf(commit) {
      const [onto, key] = [head(), `${head()} ${commit}`];
      const merge = merges.get(key) ?? merged(onto, commit);
      merges.set(key, merge);
      return merge;
    },
  };
}
