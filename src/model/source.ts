/** The sources of projects, and their logins. */

/**
 * A repository's identity: `host[:port]/path`, equal for every spelling of the same repository's URL
 * (see repo-url.ts). It is an index key, never something to connect to.
 */
export type RepoId = string & { readonly __brand: "RepoId" };

/** The ref a deployment follows: at most one field is set; if none is, the remote's default branch. */
export interface GitRef {
  readonly branch?: string | undefined;
  readonly tag?: string | undefined;
  readonly commit?: string | undefined;
}

export interface GitSource {
  readonly kind: "git";
  /** As the user wrote it. */
  readonly url: string;
  readonly ref: GitRef;
  /** Relative to the repository's root, without leading or trailing `/`; `""` is the root. */
  readonly path: string;
}

/** An artifact in an OCI registry; registries send no webhooks, so it is checked at its interval. */
export interface OciSource {
  readonly kind: "oci";
  /** As the user wrote it: `oci://registry/repository`. */
  readonly url: string;
  /** If neither is set, the tag `latest`; a digest takes precedence over a tag. */
  readonly ref: { readonly tag?: string | undefined; readonly digest?: string | undefined };
  /** Relative to the artifact's root, without leading or trailing `/`; `""` is the root. */
  readonly path: string;
}

/** One login, from an entry of `spec.credentials.git`; never logged, never in Redis. */
export interface GitCredential {
  /** The host the login is for, with its port unless that is the default; `*` for any host (ssh only). */
  readonly host: string;
  /**
   * Set for the deprecated `spec.source.secretRef`, which also applies to what the project includes. This is the
   * source's host name (empty if it has none): a password is sent to no other host, but to any of its ports; a key is
   * used for any host.
   */
  readonly namedHost?: string | undefined;
  /** A glob for the repository's path, if the entry has one. */
  readonly path?: string | undefined;
  /** The Secret's name for error messages; empty for a login of the server's own. */
  readonly secretName: string;
  /** `*`: use the user name in the URL. */
  readonly username: string;
  readonly password?: string | undefined;
  /** An SSH private key (PEM). */
  readonly identity?: string | undefined;
  readonly knownHosts?: string | undefined;
  /** PEM certificates to trust in addition to the system's. */
  readonly ca?: string | undefined;
}

/** The TLS settings of a login; all in PEM. */
interface TlsCredential {
  /** The client certificate and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Certificates to trust in addition to the system's. */
  readonly ca?: string | undefined;
  /** Whether to accept any server certificate. */
  readonly insecureSkipTlsVerify: boolean;
}

/** One login, from an entry of `spec.credentials.oci`; never logged, never in Redis. */
export interface OciCredential extends TlsCredential {
  /** The registry the login is for, with its port if the URL has one. */
  readonly registry: string;
  /** A glob for the repository, if the entry has one. */
  readonly repository?: string | undefined;
  /** The Secret's name for error messages; empty for a login of the server's own. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Exchanged for a token at the registry's token service. */
  readonly identityToken?: string | undefined;
  /** Sent as is. */
  readonly token?: string | undefined;
  readonly plainHttp: boolean;
}

/** One login, from an entry of `spec.credentials.helm`; never logged, never in Redis. */
export interface HelmCredential extends TlsCredential {
  /** Used instead of the host: the id by which charts refer to the login. Only kluctl up to 2.22 knows such ids. */
  readonly credentialsId?: string | undefined;
  /** The host the login is for, with its port if the URL has one. */
  readonly host: string;
  /** A glob for the path of the Helm repository, if the entry has one. */
  readonly path?: string | undefined;
  /** The Secret's name for error messages. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Whether to send the login to other hosts that the repository's index refers to. */
  readonly passCredentialsAll: boolean;
}

/** All logins of a deployment, each list in the order of the spec: the first match wins. */
export interface Credentials {
  readonly git: readonly GitCredential[];
  readonly oci: readonly OciCredential[];
  readonly helm: readonly HelmCredential[];
}

export const noCredentials: Credentials = { git: [], oci: [], helm: [] };

/** A repository and the logins to try for it; the first match wins. */
export interface Repository {
  readonly url: string;
  readonly credentials: readonly GitCredential[];
}

/** How recent an answer about a remote must be. An answer is as old as the question. */
export interface Freshness {
  /** Git was asked after this process learned of this move, see Queue.lastMove. */
  readonly since?: string | undefined;
  /** In milliseconds; if absent, however old. */
  readonly maxAgeMs?: number | undefined;
}

/** The current refs of a remote. */
export interface Heads {
  /** Full name of what HEAD points to, e.g. `refs/heads/main`; absent for an empty repository. */
  readonly defaultRef?: string | undefined;
  /** Full ref name → commit (annotated tags are dereferenced). Branches and tags only. */
  readonly commits: ReadonlyMap<string, string>;
}

/** An earlier answer of a remote. `askedAt`: epoch milliseconds. */
export interface KnownHeads {
  readonly heads: Heads;
  readonly askedAt: number;
}

/** Both are whatever the author wrote; the name may be empty. */
export interface Authorship {
  readonly subject: string;
  readonly author: string;
}
