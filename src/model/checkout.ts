/** Working copies of git repositories and OCI artifacts, and what to check out. */
import type { GitRef, GitSource, OciSource, Credentials } from "./source.ts";

/** A source with the logins to try for it; the first match wins. */
export type CheckoutSource = GitCheckoutSource | OciCheckoutSource;

export interface GitCheckoutSource extends Omit<GitSource, "kind"> {
  readonly kind?: "git";
  /** The last observed commit: before going back to one of its ancestors, git is queried again. */
  readonly seen?: string | undefined;
  readonly credentials: Credentials["git"];
}

export interface OciCheckoutSource extends OciSource {
  readonly credentials: Credentials["oci"];
}

export interface Leaving {
  /** Throws a RemoteBusyError instead of waiting while another operation on the remote is slow. */
  readonly leaves?: boolean | undefined;
}

export interface Checkout {
  /** The clone's root. */
  readonly root: string;
  /** The project's directory: root + source.path. */
  readonly projectDir: string;
  /** For an artifact: the commit that it says it was built from, or empty. For a working copy: empty. */
  readonly commit: string;
  /** The ref that an artifact says it was built from. */
  readonly madeFrom?: GitRef | undefined;
  release(): Promise<void>;
}

/** Why the files of a checkout may render differently another time; for display. */
export interface UnsteadyFiles {
  readonly templates?: string | undefined;
  /** Only relevant to projects with Helm charts. */
  readonly charts?: string | undefined;
  /** Why files outside the directory may be read. */
  readonly outside?: string | undefined;
}

/** The artifact that a tag points to. */
export interface Tag {
  /** Absent if the registry does not report it. */
  readonly digest: string | undefined;
  /** The digest of this process's last checkout of the tag, if there was one. */
  readonly checkedOut: string | undefined;
}
