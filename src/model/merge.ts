/** The merge of a pull request into its base. */
import type { ChangedPaths } from "./forge.ts";
import type { Repository } from "./source.ts";
import type { LocalOverride } from "./source-override.ts";

export interface MergeSource extends Repository {
  /** The full hashes of both commits. */
  readonly head: string;
  readonly base: string;
  /** The head is already the merge commit, created by the host on top of the base. */
  readonly isMerged?: boolean | undefined;
  /**
   * With `isMerged`: the tip of the branch that the host merges into, from which `baseHosts` are read. Without it
   * there are none, because then the base is only what the head's branch claims.
   */
  readonly tip?: string | undefined;
}

export type Merge = Merged | { readonly kind: "conflict"; readonly paths: readonly string[] };

/** A merge of two commits, in a clone of its own, shared by readers; nothing writes to it. */
export interface Merged {
  readonly kind: "merged";
  /** The commit that was merged. */
  readonly head: string;
  /** The commit that was merged into. */
  readonly base: string;
  /** The files in which the merge differs from the base. */
  readonly changed: ChangedPaths;
  /**
   * The project at this path, in the merge or in another commit, which then has a clone of its own. Throws SourceError:
   * `ref-not-found` for a commit that the repository does not have.
   */
  project(path: string, signal: AbortSignal, of?: string): Promise<Placed>;
  /** Like `project`, with placeholders for all encrypted values. Also throws PrepareError. */
  stubbed(path: string, signal: AbortSignal, of?: string): Promise<Stubbed>;
  /**
   * The hosts that the projects of the base branch fetch from, as far as their files name them. Throws SourceError.
   */
  baseHosts(signal: AbortSignal): Promise<readonly string[]>;
  /** One line of a file of the merge; the path is from the repository's root. `undefined` if there is no such line. */
  line(path: string, line: number, signal: AbortSignal): Promise<string | undefined>;
  release(): Promise<void>;
}

/** A project in a clone that nothing writes to. */
export interface Placed {
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  readonly projectDir: string;
  /** Clones, as read-only as the project's, that take the place of what it includes. */
  readonly overrides?: readonly LocalOverride[] | undefined;
}

export interface Stubbed extends Placed {
  /** For the whole repository: path from its root → digest of the encrypted values in that file. */
  readonly encrypted: ReadonlyMap<string, string>;
}
