/** Local directories that users provide in place of sources, with `kluctl gitops`. */
import type { Checkout } from "./checkout.ts";

/** kluctl's name of a repository: `git://host[:port]/path` or `oci://host[:port]/path`, see repo-key.ts. */
export interface RepoKey {
  readonly type: "git" | "oci";
  /** With its port, unless it is the protocol's default. */
  readonly host: string;
  /** Without leading and trailing `/`. */
  readonly path: string;
}

/** A source that a user replaces with a directory on their own machine. */
export interface SourceOverride {
  readonly repoKey: RepoKey;
  /** Applies to all repositories below it. */
  readonly isGroup: boolean;
  /** How to reach the user's client: `grpc+source-override://host:port/client`. */
  readonly url: string;
}

/**
 * The sources provided by clients. Everything is removed on release. All methods throw PrepareError if a client does
 * not deliver what it offered.
 */
export interface OfferedSources {
  /**
   * The directory provided for a repository by any matching override; `undefined` if no client has one. A client is
   * asked once and has `timeoutMs` to respond.
   */
  find(key: RepoKey, timeoutMs: number, signal: AbortSignal): Promise<string | undefined>;
  /** Like `find`, for a deployment's own source; the checkout has no commit. */
  checkout(key: RepoKey, path: string, timeoutMs: number, signal: AbortSignal): Promise<Checkout | undefined>;
  /** A path to a file, to be used where kluctl expects a directory. */
  readonly nowhere: string;
  /** An empty project. */
  readonly nothing: string;
  release(): Promise<void>;
}

/** The directory that kluctl uses in place of a repository, or of all repositories below a path. */
export interface LocalOverride extends Pick<SourceOverride, "repoKey" | "isGroup"> {
  readonly path: string;
}
