/** Clones of a merge, and of the deployed commit, with placeholders instead of encrypted values. */
import { join } from "node:path";
import type { Stubbed } from "../model.ts";
import { checkOut } from "./clone.ts";
import type { WorkDirectories } from "../kit/work-directories.ts";
import type { Git } from "./git.ts";

/** Finds encrypted values in a checkout and replaces them by placeholders. */
export interface EncryptedFiles {
  find(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
  stub(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
}

export interface StubbedClonesDeps {
  readonly git: Git;
  readonly work: Pick<WorkDirectories, "create">;
  readonly encrypted: EncryptedFiles;
  /** The checked-out merge, and the directory that contains it. Neither is written to. */
  readonly root: string;
  readonly slot: string;
  readonly base: string;
  /** Whether the remote has shown the commit to the login of this merge. */
  readonly shows: (commit: string) => Promise<boolean>;
  /** Clones the merge's repository, without a working tree. */
  readonly clone: (to: string, signal: AbortSignal) => Promise<void>;
  /** Never rejects. */
  readonly remove: (slot: string) => Promise<void>;
}

interface StubbedClone extends Omit<Stubbed, "projectDir"> {
  readonly root: string;
}

/** One clone per commit, shared by all callers, until released. */
export interface StubbedClones {
  get(signal: AbortSignal, of?: { readonly deployed: string | undefined }): Promise<StubbedClone>;
  release(): Promise<void>;
}

export function createStubbedClones({ git, work, encrypted, root, base, ...deps }: StubbedClonesDeps): StubbedClones {
  const made = new Map<string, Promise<StubbedClone>>();
  const slots: string[] = [];

  async function stub(commit: string, signal: AbortSignal): Promise<StubbedClone> {
    const slot = await work.create();
    slots.push(slot);
    const copy = join(slot, "clone");
    await deps.clone(copy, signal);
    await checkOut(git, copy, commit, signal);
    return { slot, root: copy, encrypted: await encrypted.stub(copy, signal) };
  }

  /** Most repositories contain nothing encrypted: then the merge's own checkout is used. */
  async function stubMerge(signal: AbortSignal): Promise<StubbedClone> {
    const found = await encrypted.find(root, signal);
    if (found.size === 0) return { slot: deps.slot, root, encrypted: found };
    return stub(await hashOf("HEAD", signal), signal);
  }

  async function hashOf(name: string, signal: AbortSignal): Promise<string> {
    const args = ["rev-parse", "--verify", "--end-of-options", `${name}^{commit}`];
    return (await git(args, { at: { tree: root }, protocols: [], signal })).trim();
  }

  /**
   * Falls back to the base: the deployed commit may have been replaced by a force push, or belong to another branch
   * that this clone does not have.
   */
  async function findDeployed(deployed: string | undefined, signal: AbortSignal): Promise<string> {
    if (deployed === undefined || deployed === base || !/^[0-9a-f]{40,64}$/.test(deployed)) return base;
    const find = async () => ((await deps.shows(deployed)) ? hashOf(deployed, signal) : base);
    return find().catch(() => base);
  }

  async function once(commit: string, make: () => Promise<StubbedClone>): Promise<StubbedClone> {
    const known = made.get(commit) ?? make();
    made.set(commit, known);
    known.catch(() => made.get(commit) === known && made.delete(commit));
    return known;
  }

  return {
    async get(signal, of) {
      if (of === undefined) return once("merge", () => stubMerge(signal));
      const commit = await findDeployed(of.deployed, signal);
      return once(commit, () => stub(commit, signal));
    },
    async release() {
      await Promise.allSettled(made.values());
      await Promise.all(slots.map(deps.remove));
    },
  };
}
