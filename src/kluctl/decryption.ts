/**
 * Translates a deployment's decryption keys to what SOPS and the clouds' libraries read. kluctl's command line accepts
 * them only through the environment, so a cloud login given here is also used for vars from that cloud's secret store.
 * Pure.
 */
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { PrepareError } from "../errors.ts";
import type { DecryptionKeys } from "../model.ts";

export interface Decryption {
  readonly env: Readonly<Record<string, string>>;
  /** Variables of the server that would change the meaning of these. */
  readonly dropped: readonly RegExp[];
  /** Path → content, to be written before kluctl starts. */
  readonly files: ReadonlyMap<string, string>;
  /** To be imported into gpg's keyring: name of an armored PGP key in the Secret → its path. */
  readonly pgpKeys: ReadonlyMap<string, string>;
}

/** The names of keys in the Secret. */
const cloudKeyNames = ["sops.vault-token", "sops.aws-kms", "sops.azure-kv", "sops.gcp-kms"] as const;
const keyName = new RegExp(`\\.(agekey|asc)$|^(${cloudKeyNames.join("|").replaceAll(".", "\\.")})$`);

type Fields = Readonly<Record<string, string | undefined>>;
type WriteFile = (name: string, content: string) => string;

/** Only SOPS reads it: the server's key is for deployments that ask for decryption. */
const serversOwn = /^GOOGLE_CREDENTIALS$/;
/** The server's region, endpoints and certificates are kept: they are not logins. */
const awsLogin =
  /^AWS_(ACCESS_KEY(_ID)?|SECRET(_ACCESS)?_KEY|SESSION_TOKEN|PROFILE|DEFAULT_PROFILE|CONFIG_FILE|SHARED_CREDENTIALS_FILE|ROLE_ARN|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|CONTAINER_.*)$/;
const azureLogin = /^AZURE_/;

/** Throws PrepareError for a key that does not have the format its name implies. */
export function toDecryption(keys: DecryptionKeys | undefined, dir: string): Decryption {
  const files = new Map<string, string>();
  const file: WriteFile = (name, content) => {
    const path = join(dir, name);
    files.set(path, content);
    return path;
  };
  if (keys === undefined) return { env: {}, dropped: [serversOwn], files, pgpKeys: new Map() };

  const named = (end: string) => Object.entries(keys.data).filter(([name]) => name.endsWith(end));
  const given = (name: string) => keys.data[name]?.trim() || undefined;
  const [vault, aws, azure, google] = cloudKeyNames.map(given);
  const ageKeys = named(".agekey").map(([, key]) => key);
  const fields: Fields = {
    SOPS_AGE_KEY: ageKeys.length > 0 ? ageKeys.join("\n") : undefined,
    VAULT_TOKEN: vault,
    // As in AWS's own libraries, static credentials take precedence over a web identity.
    ...(aws ? toAws(aws) : keys.webIdentity && toWebIdentity(keys.webIdentity, file)),
    ...(azure && toAzure(azure, file)),
    GOOGLE_CREDENTIALS: google && toGoogle(google),
  };
  const env = Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined);
  // Node would put the value into its error message.
  const broken = env.find(([, value]) => value.includes("\0"));
  if (broken) throw new PrepareError(`failed to import data from decryption Secret: ${broken[0]} has a NUL character`);
  return {
    env: Object.fromEntries(env),
    dropped: [...(aws || keys.webIdentity ? [awsLogin] : []), ...(azure ? [azureLogin] : [])],
    files,
    pgpKeys: new Map(named(".asc").map(([name, key], index) => [name, file(`key-${index}.asc`, key)])),
  };
}

const text = z.string().min(1).optional().catch(undefined);

const AwsLogin = z.object({ aws_access_key_id: text, aws_secret_access_key: text, aws_session_token: text });

function toAws(value: string): Fields {
  const login = parseLogin("sops.aws-kms", AwsLogin, value);
  if (login.aws_access_key_id === undefined || login.aws_secret_access_key === undefined) {
    throw refusal("sops.aws-kms", "it needs aws_access_key_id and aws_secret_access_key");
  }
  return {
    AWS_ACCESS_KEY_ID: login.aws_access_key_id,
    AWS_SECRET_ACCESS_KEY: login.aws_secret_access_key,
    AWS_SESSION_TOKEN: login.aws_session_token,
  };
}

function toWebIdentity({ roleArn, token }: NonNullable<DecryptionKeys["webIdentity"]>, file: WriteFile): Fields {
  return {
    AWS_ROLE_ARN: roleArn,
    AWS_WEB_IDENTITY_TOKEN_FILE: file("aws-token", token),
    AWS_ROLE_SESSION_NAME: "kluctl-controller",
  };
}

const AzureLogin = z.object({
  tenantId: text,
  clientId: text,
  clientSecret: text,
  clientCertificate: text,
  clientCertificatePassword: text,
  clientCertificateSendChain: z.boolean().optional().catch(undefined),
  authorityHost: text,
  appId: text,
  tenant: text,
  password: text,
});

/**
 * Tries the credentials in the order of kluctl's controller: client secret, certificate, the output of `az`, managed
 * identity.
 */
function toAzure(value: string, file: WriteFile): Fields {
  const login = parseLogin("sops.azure-kv", AzureLogin, value);
  const { tenantId, clientId, clientSecret, clientCertificate, authorityHost, appId, tenant, password } = login;
  const shared: Fields = { AZURE_AUTHORITY_HOST: authorityHost };
  if (tenantId && clientId && (clientSecret || clientCertificate)) {
    const certificate: Fields = {
      AZURE_CLIENT_CERTIFICATE_PATH: clientCertificate && file("azure-certificate.pem", clientCertificate),
      AZURE_CLIENT_CERTIFICATE_PASSWORD: login.clientCertificatePassword,
      AZURE_CLIENT_SEND_CERTIFICATE_CHAIN: login.clientCertificateSendChain ? "true" : undefined,
    };
    const proof = clientSecret ? { AZURE_CLIENT_SECRET: clientSecret } : certificate;
    return { ...shared, AZURE_TENANT_ID: tenantId, AZURE_CLIENT_ID: clientId, ...proof };
  }
  if (tenant && appId && password) {
    return { ...shared, AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: appId, AZURE_CLIENT_SECRET: password };
  }
  if (clientId) return { AZURE_CLIENT_ID: clientId };
  const ways =
    "clientId, tenantId and clientSecret or clientCertificate; or appId, tenant and password; or clientId alone";
  throw refusal("sops.azure-kv", `it needs ${ways}`);
}

/** SOPS would take any other value for the path of a file on the server. */
function toGoogle(value: string): string {
  try {
    const login: unknown = JSON.parse(value);
    if (typeof login === "object" && login !== null && !Array.isArray(login)) return value;
  } catch {
    // reported below without the parser's message, which quotes the value
  }
  throw refusal("sops.gcp-kms", "it is not a service account key in JSON");
}

function parseLogin<T>(name: string, schema: z.ZodType<T>, value: string): T {
  try {
    const { data } = schema.safeParse(parse(value, { logLevel: "error" }));
    if (data !== undefined) return data;
  } catch {
    // reported below without the parser's message, which quotes the value
  }
  throw refusal(name, "it is not a YAML mapping");
}

function refusal(name: string, why: string): PrepareError {
  return new PrepareError(`failed to import '${name}' data from decryption Secret: ${why}`);
}

/** Adds advice: SOPS reports which keys could not decrypt a file, but not what to do. */
export function explainDecryption(error: unknown, keys: DecryptionKeys | undefined): unknown {
  if (!(error instanceof PrepareError) || !error.message.includes("Failed to get the data key required to decrypt")) {
    return error;
  }
  const locked = /Inappropriate[\s|]+ioctl|[Nn]o[\s|]+pinentry|[Bb]ad[\s|]+passphrase/.test(error.message);
  const unlock = locked
    ? " A PGP key in it has a passphrase, which cannot be entered here: export the key without one."
    : "";
  return new PrepareError(`${error.message}\n\n${adviceFor(keys)}${unlock}`, { cause: error });
}

function adviceFor(keys: DecryptionKeys | undefined): string {
  if (keys === undefined) return "Set spec.decryption.secretRef to a Secret with the key.";
  const role = keys.webIdentity && `AWS role ${keys.webIdentity.roleArn}`;
  if (keys.secretName === undefined) {
    return role
      ? `spec.decryption has ${role}, which cannot decrypt it, and no secretRef.`
      : "spec.decryption references no Secret, and its service account has no AWS role.";
  }
  const names = Object.keys(keys.data).sort();
  const what = `No key in Secret ${keys.secretName} (${names.join(", ") || "empty"})${role ? ` or ${role}` : ""} decrypts it.`;
  const unread = names.filter((name) => !keyName.test(name));
  if (unread.length === 0) return what;
  return `${what} Ignored because of ${unread.length === 1 ? "its name" : "their names"}: ${unread.join(", ")}. The name of a key must be *.agekey, *.asc, ${cloudKeyNames.join(", ")}.`;
}
