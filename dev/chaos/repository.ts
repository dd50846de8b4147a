/** A repository as those who push to it know it: each commit's files are remembered, so that nobody has to ask git. */
import type { WorkCopy } from "../parts/work-copy.ts";
import type { Push } from "./history.ts";
import type { Tree } from "./render.ts";

export interface Repository {
  readonly name: string;
  /** What a KluctlDeployment names. */
  readonly url: string;
  /** `undefined` while the branch is deleted. */
  head(): string | undefined;
  treeAt(commit: string): Tree;
  /** The files of the branch as they are. */
  tree(): Tree;
  /** Commits on the branch from its first, oldest first. */
  commits(): readonly string[];
  /** Each of these changes is a commit; all of them are one push. */
  push(changes: readonly ReadonlyMap<string, string>[], message: string): Promise<Push>;
  /** Sets the branch back to a commit that it was at. */
  setBack(commit: string): Promise<Push>;
  /** The same files under a new commit, which replaces the last one. */
  rewrite(): Promise<Push>;
  deleteBranch(): Promise<void>;
  restoreBranch(): Promise<Push>;
}

export interface RepositoryOptions {
  readonly name: string;
  readonly url: string;
  readonly copy: WorkCopy;
  readonly files: Tree;
  /** Told before anybody can see it. */
  readonly onPush: (push: Push) => void;
}

export async function createRepository({ name, url, copy, files, onPush }: RepositoryOptions): Promise<Repository> {
  const trees = new Map<string, Tree>();
  let line: string[] = [];
  let deleted = false;

  async function upload(paths: readonly string[] = []): Promise<Push> {
    const push: Push = { repo: name, commit: head(), at: Date.now(), paths };
    onPush(push);
    deleted = false;
    await copy.git("push", "--quiet", "--force", "origin", "HEAD:refs/heads/main");
    return push;
  }

  async function commitFiles(changes: ReadonlyMap<string, string>, message: string): Promise<string> {
    const before = trees.get(line.at(-1) ?? "") ?? new Map<string, string>();
    const commit = await copy.commit(Object.fromEntries(changes), message);
    trees.set(commit, new Map([...before, ...changes]));
    line.push(commit);
    return commit;
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
      return upload([...new Set(changes.flatMap((change) => [...change.keys()]))]);
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
      onPush({ repo: name, commit: undefined, at: Date.now(), paths: [] });
      deleted = true;
      await copy.git("push", "--quiet", "origin", ":refs/heads/main");
    },
    restoreBranch: () => upload(),
  };
}
