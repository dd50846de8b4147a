/** The logins of a deployment, read from the Secrets it names in its own namespace. */
import { SourceError } from "../errors.ts";
import { keyText, type Deployment, type GitCredential } from "../model.ts";
import type { Secrets } from "../ports.ts";

/** In the order of the spec, first match wins. Throws SourceError when a Secret is missing. */
export async function readGitCredentials(deployment: Deployment, secrets: Secrets): Promise<GitCredential[]> {
  const { namespace } = deployment.key;
  return Promise.all(
    deployment.spec.gitCredentials.map(async ({ host, path, secretName }) => {
      const data = await secrets.get(namespace, secretName);
      if (data === undefined) {
        const where = `spec.credentials.git of ${keyText(deployment.key)}`;
        throw new SourceError(
          "unauthorized",
          `secret ${namespace}/${secretName} does not exist, but ${where} names it`,
        );
      }
      return {
        host: host || "*",
        path,
        secretName: `${namespace}/${secretName}`,
        username: data["username"] || "*",
        password: data["password"],
        identity: data["identity"],
        knownHosts: data["known_hosts"],
        ca: data["caFile"],
      };
    }),
  );
}

/** Equal for deployments that see the same remote with the same logins, without reading a Secret. */
export function loginKey({ key, spec }: Deployment): string {
  const { gitCredentials, source } = spec;
  return JSON.stringify(gitCredentials.length === 0 ? [source.url] : [source.url, key.namespace, gitCredentials]);
}

/** Everything in the logins that nobody may read. */
export function credentialSecrets(credentials: readonly GitCredential[]): string[] {
  return credentials
    .flatMap(({ password, identity }) => [password, identity, ...(identity?.split("\n") ?? [])])
    .filter((secret) => secret !== undefined)
    .map((secret) => secret.trim())
    .filter((secret) => secret.length >= 6);
}
