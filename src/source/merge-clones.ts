/** The clones of one merge: the merge itself, other commits, and both with placeholders instead of encrypted values. */
import { join } from "node:path";
import { SourceError } from "../errors.ts";
import type { Stubbed } from "../model.ts";
import { checkOut } from "./clone.ts";
import type { WorkDirectories } from "../kit/work-directories.ts";
import type { Git } from "./git.ts";

/** Finds encrypted values in a checkout and replaces them by placeholders. */
export interface EncryptedFiles {
  find(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
  stub(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
}

export interface MergeClonesDeps {
  readonly git: Git;
  readonly work: Pick<WorkDirectories, "create">;
  readonly encrypted: EncryptedFiles;
  /** The checked-out merge, and the directory that contains it. Neither is written to. */
  readonly root: string;
  readonly slot: string;
  /** The merge's base, which its clone contains. */
  readonly base: string;
  /** Whether the remote has shown the commit to the login of this merge. */
  readonly shows: (commit: string) => Promise<boolean>;
  /** Clones the merge's repository, without a working tree. */
  readonly clone: (to: string, signal: AbortSignal) => Promise<void>;
  /** Never rejects. */
  readonly remove: (slot: string) => Promise<void>;
}

interface MergeClone {
  readonly slot: string;
  readonly root: string;
}

interface StubbedClone extends MergeClone {
  readonly encrypted: Stubbed["encrypted"];
}

/**
 * At most one clone of each kind per commit, shared by all callers, until released. `of`: instead of the merge. Throws
 * SourceError for a commit that the login has not been shown.
 */
export interface MergeClones {
  get(signal: AbortSignal, of?: string): Promise<MergeClone>;
  stubbed(signal: AbortSignal, of?: string): Promise<StubbedClone>;
  release(): Promise<void>;
}

export function createMergeClones({ git, work, encrypted, root, slot, base, ...deps }: MergeClonesDeps): MergeClones {
  const plain = createOnce<MergeClone>();
  const stubbed = createOnce<StubbedClone>();
  const slots: string[] = [];

  async function check(commit: string): Promise<void> {
    if (commit === base) return;
    const isKnown = /^[0-9a-f]{40,64}$/.test(commit) && (await deps.shows(commit).catch(() => false));
    if (!isKnown) throw new SourceError("ref-not-found", `there is no commit ${commit.slice(0, 40)}`);
  }

  async function copy(commit: string, signal: AbortSignal): Promise<MergeClone> {
    const own = await work.create();
    slots.push(own);
    const to = join(own, "clone");
    await deps.clone(to, signal);
    await checkOut(git, to, commit, signal);
    return { slot: own, root: to };
  }

  async function stub(commit: string, signal: AbortSignal): Promise<StubbedClone> {
    const made = await copy(commit, signal);
    return { ...made, encrypted: await encrypted.stub(made.root, signal) };
  }

  /** Most repositories contain nothing encrypted: then the merge's own checkout is used. */
  async function stubMerge(signal: AbortSignal): Promise<StubbedClone> {
    const found = await encrypted.find(root, signal);
    if (found.size === 0) return { slot, root, encrypted: found };
    const args = ["rev-parse", "--verify", "HEAD^{commit}"];
    return stub((await git(args, { at: { tree: root }, protocols: [], signal })).trim(), signal);
  }

  return {
    async get(signal, of) {
      if (of === undefined) return { slot, root };
      await check(of);
      return plain.get(of, () => copy(of, signal));
    },
    async stubbed(signal, of) {
      if (of === undefined) return stubbed.get("merge", () => stubMerge(signal));
      await check(of);
      return stubbed.get(of, () => stub(of, signal));
    },
    async release() {
      await Promise.all([plain.settled(), stubbed.settled()]);
      await Promise.all(slots.map(deps.remove));
    },
  };
}

/** Remembers what was made, but no failure. */
function createOnce<T>() {
  const made = new Map<string, Promise<T>>();
  return {
    get(key: string, make: () => Promise<T>): Promise<T> {
      const known = made.get(key) ?? make();
      made.set(key, known);
      known.catch(() => made.get(key) === known && made.delete(key));
      return known;
    },
    settled: () => Promise.allSettled(made.values()),
  };
}
