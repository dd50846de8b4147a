/** The merge of a pull request into its base. */
import type { ChangedPaths } from "./forge.ts";
import type { Repository } from "./source.ts";

export interface MergeSource extends Repository {
  /** The full hashes of both commits. */
  readonly head: string;
  readonly base: string;
  /** The head is already the merge commit, created by the host on top of the base. */
  readonly isMerged?: boolean | undefined;
}

export type Merge = Merged | { readonly kind: "conflict"; readonly paths: readonly string[] };

/** A merge of two commits, in a clone of its own, shared by readers; nothing writes to it. */
export interface Merged {
  readonly kind: "merged";
  /** The files in which the merge differs from the base. */
  readonly changed: ChangedPaths;
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  /** The directory of the project at this path. Throws SourceError. */
  project(path: string): Promise<string>;
  /**
   * Like `project`, in a clone of its own with placeholders for all encrypted values. With `of`: that commit instead of
   * the merge, or the base if the commit is unknown. Throws SourceError, PrepareError.
   */
  stubbed(path: string, signal: AbortSignal, of?: { readonly deployed: string | undefined }): Promise<Stubbed>;
  /** The hosts that the base's projects fetch from, as far as their files name them. Throws SourceError. */
  baseHosts(signal: AbortSignal): Promise<readonly string[]>;
  release(): Promise<void>;
}

export interface Stubbed {
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  readonly projectDir: string;
  /** For the whole repository: path from its root → digest of the encrypted values in that file. */
  readonly encrypted: ReadonlyMap<string, string>;
}
