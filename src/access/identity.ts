/**
 * Determines which user kluctl acts as for a deployment, on which cluster, and what it may decrypt: from the resource
 * and from what it references in its own namespace.
 */
import { PrepareError } from "../errors.ts";
import { type Deployment, type Identity, type RemoteCluster, serviceAccountUser } from "../model.ts";
import type { Secrets, ServiceAccounts } from "../ports.ts";
import { readDecryptionKeys } from "./identity-keys.ts";
import { secretsIn } from "../redact/secrets-in.ts";

export interface IdentityDeps {
  readonly secrets: Secrets;
  readonly serviceAccounts: ServiceAccounts;
  /** Throws an error that says what is wrong with the kubeconfig. */
  readonly toRemoteCluster: (kubeconfig: string, impersonate: string | undefined) => Promise<RemoteCluster>;
  /** Why the server may not impersonate a user on its own cluster, if so. */
  readonly refusedToActAs?: ((user: string) => Promise<string | undefined>) | undefined;
  /**
   * Credentials of the server itself: kluctl receives them for every deployment, so they are redacted for every
   * deployment.
   */
  readonly serverSecrets?: (() => readonly string[]) | undefined;
  /** For deployments without a service account. */
  readonly defaultServiceAccount?: string | undefined;
}

export interface IdentityOptions {
  /** Takes precedence over the deployment's own. */
  readonly serviceAccount?: string | undefined;
  /** False for operations that need no project. */
  readonly decrypts?: boolean;
  /** Whether kluctl uses a token of the account, so that no impersonation is needed. */
  readonly byToken?: boolean;
}

/** Throws PrepareError. */
export type ReadIdentity = (deployment: Deployment, options?: IdentityOptions) => Promise<Identity>;

export function createReadIdentity(deps: IdentityDeps): ReadIdentity {
  return async function readIdentity(deployment, { serviceAccount, decrypts = true, byToken = false } = {}) {
    const { key, spec } = deployment;
    const account = serviceAccount ?? spec.serviceAccountName ?? deps.defaultServiceAccount;
    const impersonate =
      account === undefined ? undefined : serviceAccountUser({ namespace: key.namespace, name: account });
    if (impersonate !== undefined && !byToken && spec.kubeConfig === undefined) await assertAllowed(impersonate, deps);
    const [remote, decryption] = await Promise.all([
      readCluster(deployment, impersonate, deps),
      decrypts ? readDecryptionKeys(deployment, deps) : undefined,
    ]);
    const token = decryption?.webIdentity?.token;
    const keys = Object.values(decryption?.data ?? {}).flatMap(secretsIn);
    const own = [...(remote?.secrets ?? []), ...keys, ...(token === undefined ? [] : [token])];
    const secrets = [...own, ...(deps.serverSecrets?.() ?? [])];
    return { impersonate, cluster: remote?.cluster, decryption, secrets };
  };
}

async function assertAllowed(user: string, { refusedToActAs }: IdentityDeps): Promise<void> {
  const refusal = await refusedToActAs?.(user);
  if (refusal === undefined) return;
  throw new PrepareError(
    `the server is not allowed to impersonate ${user}: ${refusal}; grant its service account "impersonate" on it (the chart's rbac.serviceAccounts)`,
  );
}

async function readCluster(
  deployment: Deployment,
  impersonate: string | undefined,
  { secrets, toRemoteCluster }: IdentityDeps,
): Promise<{ cluster: RemoteCluster; secrets: string[] } | undefined> {
  const { kubeConfig } = deployment.spec;
  if (kubeConfig === undefined) return undefined;
  const { name, text } = await readKubeconfig(deployment, kubeConfig, secrets);
  try {
    return { cluster: await toRemoteCluster(text, impersonate), secrets: secretsIn(text) };
  } catch (error) {
    throw new PrepareError(`KubeConfig secret '${name}' cannot be used: ${(error as Error).message}`);
  }
}

async function readKubeconfig(
  { key: { namespace }, spec }: Deployment,
  { secretName, key }: NonNullable<Deployment["spec"]["kubeConfig"]>,
  secrets: Secrets,
): Promise<{ name: string; text: string }> {
  const name = `${namespace}/${secretName}`;
  const data = await secrets.get(namespace, secretName, spec.serviceAccountName);
  if (data === undefined) {
    throw new PrepareError(`unable to read KubeConfig secret '${name}' error: secrets "${secretName}" not found`);
  }
  const text = key === undefined ? (data["value"] ?? data["value.yaml"]) : data[key];
  if (text === undefined) {
    throw new PrepareError(`KubeConfig secret '${name}' does not contain a '${key ?? "value"}' key with a kubeconfig`);
  }
  return { name, text };
}
