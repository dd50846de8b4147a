/** Credentials in the server's environment, which apply to all deployments. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { secretsIn, secretsInDockerConfig } from "../redact/secrets-in.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Variables of kluctl, git, SOPS and the clouds' secret stores. */
const owners = /^(?:KLUCTL|AWS|AZURE|GOOGLE|VAULT|SOPS)_/;
const credential = /(?:PASSWORD|PASSPHRASE|SECRET|SECRET_ID|TOKEN|KEY|CREDENTIALS)$/;
/** Variables that hold either a path or the content of the file. */
const file = /(?:SSH_KEY|KEY_FILE|TOKEN_FILE|CREDENTIALS|CREDENTIALS_FILE)$/;
const proxy = /^(?:HTTP|HTTPS|ALL)_PROXY$/i;
/** Larger files are not credentials. */
const mostBytes = 100_000;

/** Values that must not appear in anything the server writes. Reads files now, and skips unreadable ones. */
export function environmentSecrets(env: Environment): readonly string[] {
  const named = Object.entries(env).flatMap(([name, value]) => {
    if (!value) return [];
    if (proxy.test(name)) return passwordOf(value);
    if (!owners.test(name)) return [];
    const content = file.test(name) && value.startsWith("/") ? readSmall(value) : undefined;
    if (content !== undefined) return secretsIn(content);
    if (name.endsWith("CREDENTIALS")) return secretsIn(value);
    return credential.test(name) ? [value] : [];
  });
  return [...named, ...dockerSecrets(env)];
}

/** Credentials of `docker login`, which are used for registries in addition to those of deployments. */
function dockerSecrets({ DOCKER_CONFIG, HOME }: Environment): string[] {
  const folder = DOCKER_CONFIG || (HOME && join(HOME, ".docker"));
  const content = folder && readSmall(join(folder, "config.json"));
  return content ? secretsInDockerConfig(content) : [];
}

function passwordOf(url: string): string[] {
  const password = URL.parse(url)?.password;
  return password ? [password, decode(password)] : [];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readSmall(path: string): string | undefined {
  try {
    return statSync(path).size <= mostBytes ? readFileSync(path, "utf8") : undefined;
  } catch {
    return undefined;
  }
}
