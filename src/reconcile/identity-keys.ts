/** What a deployment's encrypted files are decrypted with: the keys in a Secret, and an AWS role of a service account. */
import { ApiError, PrepareError } from "../errors.ts";
import type { Deployment } from "../model.ts";
import type { DecryptionKeys, Secrets, ServiceAccounts } from "../ports.ts";
import { loopTimeoutMs } from "./decide.ts";

interface KeyDeps {
  readonly secrets: Secrets;
  readonly serviceAccounts: ServiceAccounts;
  readonly defaultServiceAccount?: string | undefined;
}

const roleAnnotation = "eks.amazonaws.com/role-arn";
/** The API server gives no token for less. */
const leastTokenSeconds = 600;

/** `undefined` unless the deployment says that something is to be decrypted. Throws PrepareError. */
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

/** On EKS, the annotation says which role the account has; its token proves to AWS that it is the account. */
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
    // Whoever named no account for this may well decrypt without one, on a server that may not read any.
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
