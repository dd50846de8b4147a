/** Reads the decryption keys of a deployment: the keys in a Secret, and the AWS role of a service account. */
import { ApiError, PrepareError } from "../errors.ts";
import type { DecryptionKeys, Deployment } from "../model.ts";
import type { Secrets, ServiceAccounts } from "../ports.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";

interface KeyDeps {
  readonly secrets: Secrets;
  readonly serviceAccounts: ServiceAccounts;
  readonly defaultServiceAccount?: string | undefined;
}

const roleAnnotation = "eks.amazonaws.com/role-arn";
/** The API server's minimum lifetime for tokens. */
const leastTokenSeconds = 600;

/** Returns `undefined` unless the deployment configures decryption. Throws PrepareError. */
export async function readDecryptionKeys(deployment: Deployment, deps: KeyDeps): Promise<DecryptionKeys | undefined> {
  const { key, spec } = deployment;
  if (spec.decryption === undefined) return undefined;
  const { secretName } = spec.decryption;
  const name = secretName && `${key.namespace}/${secretName}`;
  const [data, webIdentity] = await Promise.all([
    secretName === undefined ? {} : deps.secrets.get(key.namespace, secretName, spec.serviceAccountName),
    findWebIdentity(deployment, deps),
  ]);
  if (data === undefined) {
    throw new PrepareError(`cannot get decryption Secret '${name}': secrets "${secretName}" not found`);
  }
  return { secretName: name, data, webIdentity };
}

/** On EKS, the annotation names the service account's role, and the account's token proves its identity to AWS. */
async function findWebIdentity(
  deployment: Deployment,
  { serviceAccounts, defaultServiceAccount }: KeyDeps,
): Promise<DecryptionKeys["webIdentity"]> {
  const { key, spec } = deployment;
  const { namespace } = key;
  const asked = spec.decryption?.serviceAccountName;
  const name = asked ?? spec.serviceAccountName ?? defaultServiceAccount;
  if (name === undefined) return undefined;
  let annotations: Readonly<Record<string, string>> | undefined;
  try {
    annotations = await serviceAccounts.annotations(namespace, name);
  } catch (error) {
    // If no account was configured for this, decryption may work without one on a server that may not read accounts.
    if (asked === undefined && error instanceof ApiError && error.status === 403) return undefined;
    throw error;
  }
  if (annotations === undefined && asked !== undefined) {
    throw new PrepareError(`spec.decryption.serviceAccount: serviceaccounts "${asked}" not found in ${namespace}`);
  }
  const roleArn = annotations?.[roleAnnotation];
  if (!roleArn) return undefined;
  if (!/^arn:[^:]+:[^:]*:[^:]*:[^:]*:./.test(roleArn)) {
    throw new PrepareError(`the annotation ${roleAnnotation} of service account ${namespace}/${name} is not an ARN`);
  }
  const seconds = Math.max(leastTokenSeconds, Math.ceil(loopTimeoutMs(spec) / 1_000));
  const token = await serviceAccounts.createToken(namespace, name, { audience: "sts.amazonaws.com", seconds });
  return { roleArn, token };
}
