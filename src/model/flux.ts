/** Flux's own resources, which Flux's controllers apply: what Towline reads of them. */
import type { Key } from "./key.ts";
import type { RepoId } from "./source.ts";

/** The ref of a GitRepository; several fields may be set, see `followedBy`. */
export interface FluxRef {
  readonly branch?: string | undefined;
  readonly tag?: string | undefined;
  /** A range of versions: the highest tag in it is followed. */
  readonly semver?: string | undefined;
  /** The full name of a ref. */
  readonly name?: string | undefined;
  readonly commit?: string | undefined;
}

/** A GitRepository of Flux. */
export interface FluxSource {
  readonly key: Key;
  readonly uid: string;
  readonly repo: RepoId;
  /** As the user wrote it. */
  readonly url: string;
  readonly ref: FluxRef;
  readonly suspended: boolean;
  /** False if its annotation `towline.dev/webhooks` disables webhooks. */
  readonly webhooks: boolean;
  /** The commit that Flux fetched last, if any. */
  readonly commit?: string | undefined;
  /** Identifies the last request to fetch, if any. */
  readonly lastRequest?: string | undefined;
  /** Whether Flux has not handled the last request to fetch yet. */
  readonly isRequested: boolean;
}

/** What a GitRepository follows. */
export type FluxFollowed =
  | { readonly kind: "commit"; readonly commit: string }
  | { readonly kind: "ref"; readonly name: string }
  | { readonly kind: "versions"; readonly range: string };

/** By Flux's precedence. Without a ref, Flux follows the branch `master`, whatever the remote's default branch is. */
export function followedBy({ commit, name, semver, tag, branch }: FluxRef): FluxFollowed {
  if (commit) return { kind: "commit", commit };
  if (name) return { kind: "ref", name };
  if (semver) return { kind: "versions", range: semver };
  return { kind: "ref", name: tag ? `refs/tags/${tag}` : `refs/heads/${branch || "master"}` };
}

/**
 * The commit in a revision such as `main@sha1:<commit>`, or, as older versions wrote it, `main/<commit>`; `undefined` if
 * it names none.
 */
export function commitOfRevision(revision: string | undefined): string | undefined {
  return /(?:^|[/:])([0-9a-f]{40}(?:[0-9a-f]{24})?)$/.exec(revision ?? "")?.[1];
}
