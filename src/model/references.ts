/** The Secrets and identities that a spec refers to. */

export interface CredentialRef {
  readonly host?: string | undefined;
  readonly path?: string | undefined;
  readonly secretName: string;
}

export interface GitCredentialRef extends CredentialRef {
  /**
   * From the deprecated `spec.source.secretRef`: for the source and for what the project includes from the same host.
   */
  readonly bySource?: boolean | undefined;
}

export interface OciCredentialRef {
  readonly registry?: string | undefined;
  readonly repository?: string | undefined;
  readonly secretName: string;
}

/** The Secret with the kubeconfig of another cluster. */
export interface KubeConfigRef {
  readonly secretName: string;
  /** The key in the Secret; if absent, `value` or `value.yaml`. */
  readonly key?: string | undefined;
}

/** How encrypted files are decrypted. */
export interface DecryptionRef {
  /** The Secret with the keys. */
  readonly secretName?: string | undefined;
  /** The identity for a cloud's key service; if absent, the deployment's own service account. */
  readonly serviceAccountName?: string | undefined;
}
