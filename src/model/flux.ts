/** Flux's own resources, which Flux's controllers apply: what Towline reads of them. */
import type { Condition } from "./deployment.ts";
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
  readonly generation: number;
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

/** The chart that Flux has built for a HelmRelease; nothing of it is known while Flux builds it. */
export interface FluxChart {
  /** The GitRepository that it is built from, if it comes from one. */
  readonly source?: Key | undefined;
  /** The commit of the GitRepository that it was built from. */
  readonly commit?: string | undefined;
  readonly version?: string | undefined;
}

/** A resource of Flux that applies what a GitRepository has. Towline reads it, and changes nothing of it. */
export interface FluxDeployment {
  readonly kind: "Kustomization" | "HelmRelease";
  readonly key: Key;
  readonly uid: string;
  readonly generation: number;
  /** Of a Kustomization: those that decide what its preview shows. */
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** The GitRepository with its directory, or with its chart; absent if these come from another kind of source. */
  readonly source?: Key | undefined;
  /** The directory or chart in the source. */
  readonly path?: string | undefined;
  /** Of a HelmRelease: the Kustomization that applies it. */
  readonly owner?: Key | undefined;
  /** Of a HelmRelease: its HelmChart, and what Flux has built for it. */
  readonly chartKey?: Key | undefined;
  readonly chart?: FluxChart | undefined;
  /** Of a HelmRelease: the version of the chart that was attempted last. */
  readonly attemptedVersion?: string | undefined;
  readonly suspended: boolean;
  /** The generation that was applied last, or that can never be applied. */
  readonly observedGeneration?: number | undefined;
  readonly ready?: Condition | undefined;
  /** Flux does not retry before a person changes something. */
  readonly isStalled: boolean;
  /** The commit of the attempt that is in progress, or that failed and will be repeated. */
  readonly attempting?: string | undefined;
  /** The commit of the last attempt that got as far as building its objects. */
  readonly attempted?: string | undefined;
  /** The commit that was applied last, with success. */
  readonly applied?: string | undefined;
  /** When what is applied now was applied first, in epoch milliseconds, as far as Flux records it. */
  readonly appliedAt?: number | undefined;
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

/** The name of the followed branch; `undefined` if it follows something else. */
export function followedBranch(ref: FluxRef): string | undefined {
  const followed = followedBy(ref);
  return followed.kind === "ref" ? /^refs\/heads\/(.+)$/.exec(followed.name)?.[1] : undefined;
}

/**
 * The commit in a revision such as `main@sha1:<commit>`, or, as older versions wrote it, `main/<commit>`; `undefined` if
 * it names none.
 */
export function commitOfRevision(revision: string | undefined): string | undefined {
  return /(?:^|[/:])([0-9a-f]{40}(?:[0-9a-f]{24})?)$/.exec(revision ?? "")?.[1];
}
