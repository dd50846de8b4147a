/** One run of kluctl: what it is given, and the user and cluster it works with. */
import type { Key } from "./key.ts";
import type { Held } from "./lease.ts";
import type { LocalOverride } from "./source-override.ts";
import type { Credentials } from "./source.ts";

/** A cluster other than the server's own. */
export interface RemoteCluster {
  /** A kubeconfig whose only context is "default"; it includes the impersonation. */
  readonly kubeconfig: string;
  /** Equal for kubeconfigs that lead to the same server; separates caches of different clusters. */
  readonly fingerprint: string;
}

/** The keys with which kluctl may decrypt the project's encrypted files. */
export interface DecryptionKeys {
  /** The Secret's name, for messages. */
  readonly secretName?: string | undefined;
  /** The Secret's data. */
  readonly data: Readonly<Record<string, string>>;
  /** The credentials with which AWS grants the role of a service account. */
  readonly webIdentity?: { readonly roleArn: string; readonly token: string } | undefined;
}

/** The user that kluctl acts as, and the cluster. */
export interface Identity {
  /** User to impersonate on the cluster (`system:serviceaccount:<ns>:<name>`); `undefined`: no impersonation. */
  readonly impersonate?: string | undefined;
  /** `undefined`: the server's own cluster. */
  readonly cluster?: RemoteCluster | undefined;
  /** `undefined`: nothing in the project is decrypted. */
  readonly decryption?: DecryptionKeys | undefined;
  /** All values in it that must not be shown. */
  readonly secrets: readonly string[];
}

/** The parameters of one kluctl process. */
export interface Run extends Partial<Identity> {
  readonly deployment: Key;
  /** Correlates log lines, results and requests of kluctl's command line. */
  readonly reconcileId: string;
  readonly projectDir: string;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly context?: string | undefined;
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  readonly images: readonly Readonly<Record<string, unknown>>[];
  readonly includeTags: readonly string[];
  readonly excludeTags: readonly string[];
  readonly includeDeploymentDirs: readonly string[];
  readonly excludeDeploymentDirs: readonly string[];
  /** Directories to use in place of what the project includes; the first match wins. */
  readonly localOverrides?: readonly LocalOverride[] | undefined;
  /** Logins for what the project includes: git repositories, OCI artifacts, Helm charts. */
  readonly credentials: Credentials;
  /** Timeout of the process in milliseconds. */
  readonly timeoutMs: number;
  /** Use a renderer that no other run uses before or after; for code that has not been approved yet. */
  readonly cold?: boolean | undefined;
  /**
   * The directory that contains the project's clone and nothing else: of the server's files, a confined run may read
   * only this, and the directories in `localOverrides`.
   */
  readonly slot?: string | undefined;
  /**
   * Equal for all attempts to preview the same change of a deployment: together, they get no more guesses at a Secret
   * than one of them. `undefined`: the run has guesses of its own.
   */
  readonly change?: string | undefined;
  /** The hosts that a confined run may reach, in the format of `preview.hosts`. */
  readonly hosts?: readonly string[] | undefined;
  /** The fence: kluctl is stopped before another worker can take the lease. Required for mutating runs. */
  readonly held?: Held | undefined;
}

export interface DiffOptions {
  readonly forceApply: boolean;
  readonly replaceOnError: boolean;
  readonly forceReplaceOnError: boolean;
}

export interface DeployOptions extends DiffOptions {
  readonly dryRun: boolean;
  readonly noWait: boolean;
  readonly abortOnError: boolean;
}

export interface DeleteOptions {
  readonly discriminator: string;
  readonly dryRun: boolean;
}

export interface RenderOptions {
  /** The Kubernetes version for charts; kluctl's default if absent. */
  readonly kubernetesVersion?: string | undefined;
}
