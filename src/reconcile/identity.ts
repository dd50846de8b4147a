/** On whose behalf, and where, a deployment's kluctl works: from its resource, and the Secrets in its own namespace. */
import { PrepareError } from "../errors.ts";
import type { Deployment } from "../model.ts";
import type { Identity, RemoteCluster, Secrets } from "../ports.ts";
import { secretsIn } from "./identity-secrets.ts";

export interface IdentityDeps {
  readonly secrets: Secrets;
  /** Throws an error that tells what is wrong with the kubeconfig. */
  readonly toRemoteCluster: (kubeconfig: string, impersonate: string | undefined) => RemoteCluster;
  /** For deployments that name none. */
  readonly defaultServiceAccount?: string | undefined;
}

export interface IdentityOptions {
  /** Goes before the deployment's own. */
  readonly serviceAccount?: string | undefined;
}

/** Throws PrepareError. */
export type ReadIdentity = (deployment: Deployment, options?: IdentityOptions) => Promise<Identity>;

export function createReadIdentity({ secrets, toRemoteCluster, defaultServiceAccount }: IdentityDeps): ReadIdentity {
  return async function readIdentity(deployment, { serviceAccount } = {}) {
    const { key, spec } = deployment;
    const account = serviceAccount ?? spec.serviceAccountName ?? defaultServiceAccount;
    const impersonate = account === undefined ? undefined : impersonation(key.namespace, account);
    if (spec.kubeConfig === undefined) return { impersonate, secrets: [] };
    const { name, text } = await readKubeconfig(deployment, spec.kubeConfig, secrets);
    try {
      return { impersonate, cluster: toRemoteCluster(text, impersonate), secrets: secretsIn(text) };
    } catch (error) {
      throw new PrepareError(`KubeConfig secret '${name}' cannot be used: ${(error as Error).message}`);
    }
  };
}

async function readKubeconfig(
  { key: { namespace } }: Deployment,
  { secretName, key }: NonNullable<Deployment["spec"]["kubeConfig"]>,
  secrets: Secrets,
): Promise<{ name: string; text: string }> {
  const name = `${namespace}/${secretName}`;
  const data = await secrets.get(namespace, secretName);
  if (data === undefined) {
    throw new PrepareError(`unable to read KubeConfig secret '${name}' error: secrets "${secretName}" not found`);
  }
  const text = key === undefined ? (data["value"] ?? data["value.yaml"]) : data[key];
  if (text === undefined) {
    throw new PrepareError(`KubeConfig secret '${name}' does not contain a '${key ?? "value"}' key with a kubeconfig`);
  }
  return { name, text };
}

/** The user name of a service account. A blank name would mean the login's own rights, so it is an error. */
function impersonation(namespace: string, account: string): string {
  if (account.trim() === "") throw new Error("a service account without a name cannot be impersonated");
  return `system:serviceaccount:${namespace}:${account}`;
}
