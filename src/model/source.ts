/** Where a project comes from, and the logins that it takes. */

/**
 * A repository's identity: `host[:port]/path`, equal for every spelling of the same repository's URL
 * (see repo-url.ts). It is an index key, never something to connect to.
 */
export type RepoId = string & { readonly __brand: "RepoId" };

/** What a deployment follows: at most one field is set; none means the remote's default branch. */
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

/** An artifact in an OCI registry; nothing tells us that it moved, so it is looked at in its interval. */
export interface OciSource {
  readonly kind: "oci";
  /** As the user wrote it: `oci://registry/repository`. */
  readonly url: string;
  /** Neither means the tag `latest`; a digest goes before a tag. */
  readonly ref: { readonly tag?: string | undefined; readonly digest?: string | undefined };
  /** Relative to the artifact's root, without leading or trailing `/`; `""` is the root. */
  readonly path: string;
}

/** One usable login, from one entry of `spec.credentials.git`; never logged, never in Redis. */
export interface GitCredential {
  /** The host the login is for, with its port unless that is the default; `*` for any (ssh only). */
  readonly host: string;
  /**
   * Of the deprecated `spec.source.secretRef`, which is meant for whatever the project includes. A password goes to no
   * other host than the source's own, whose name this is (empty: it has none), on any port; a key opens any host.
   */
  readonly namedHost?: string | undefined;
  /** A glob over the repository's path, when the entry has one. */
  readonly path?: string | undefined;
  /** Names the Secret in error texts; empty for a login of the server's own. */
  readonly secretName: string;
  /** `*` takes the URL's user. */
  readonly username: string;
  readonly password?: string | undefined;
  /** An SSH private key (PEM). */
  readonly identity?: string | undefined;
  readonly knownHosts?: string | undefined;
  /** PEM certificates to trust besides the system's. */
  readonly ca?: string | undefined;
}

/** What TLS needs of a login; PEM all of them. */
interface TlsCredential {
  /** The client's certificate and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Certificates to trust besides the system's. */
  readonly ca?: string | undefined;
  /** Whether any certificate of the server will do. */
  readonly insecureSkipTlsVerify: boolean;
}

/** One usable login, from one entry of `spec.credentials.oci`; never logged, never in Redis. */
export interface OciCredential extends TlsCredential {
  /** The registry the login is for, with its port if the URL has one. */
  readonly registry: string;
  /** A glob over the repository, when the entry has one. */
  readonly repository?: string | undefined;
  /** Names the Secret in error texts; empty for a login of the server's own. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Changed for a token at the registry's token service. */
  readonly identityToken?: string | undefined;
  /** Sent as it is. */
  readonly token?: string | undefined;
  readonly plainHttp: boolean;
}

/** One usable login, from one entry of `spec.credentials.helm`; never logged, never in Redis. */
export interface HelmCredential extends TlsCredential {
  /** Instead of the host: what charts call the login. Only kluctl up to 2.22 knows such names. */
  readonly credentialsId?: string | undefined;
  /** The host the login is for, with its port if the URL has one. */
  readonly host: string;
  /** A glob over the path of the Helm repository, when the entry has one. */
  readonly path?: string | undefined;
  /** Names the Secret in error texts. */
  readonly secretName: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Whether the login also goes to other hosts that the repository's index names. */
  readonly passCredentialsAll: boolean;
}

/** All logins of a deployment, each list in the order of the spec: first match wins. */
export interface Credentials {
  readonly git: readonly GitCredential[];
  readonly oci: readonly OciCredential[];
  readonly helm: readonly HelmCredential[];
}

export const noCredentials: Credentials = { git: [], oci: [], helm: [] };

/** A repository and the logins that may be tried on it, first match wins. */
export interface Repository {
  readonly url: string;
  readonly credentials: readonly GitCredential[];
}

/** How new an answer about a remote has to be. */
export interface AsOf {
  /** Of the repository's last known move: an answer that was asked for under the same name is used again. */
  readonly name: string;
  /** It has moved, most likely: to fetch at once is quicker than to ask first. */
  readonly moved: boolean;
}

/** What a remote has now. */
export interface Heads {
  /** Full name of what HEAD points to, e.g. `refs/heads/main`; absent for an empty repository. */
  readonly defaultRef?: string | undefined;
  /** Full ref name → commit (annotated tags are dereferenced). Branches and tags only. */
  readonly commits: ReadonlyMap<string, string>;
}
