/** Reads a deployment's logins from the Secrets that it references in its own namespace. */
import { SourceError } from "../errors.ts";
import { isTrue } from "../kit/go-bool.ts";
import {
  keyText,
  type Credentials,
  type Deployment,
  type GitCredential,
  type HelmCredential,
  type OciCredential,
  type OciSource,
} from "../model.ts";
import type { Secrets } from "../ports.ts";
import { parseRepoUrl } from "../model/repo-url.ts";

type Data = Readonly<Record<string, string>>;

/** Reads all logins. Throws SourceError if a Secret is missing. */
export async function readCredentials(deployment: Deployment, secrets: Secrets): Promise<Credentials> {
  const [git, oci, helm] = await Promise.all([
    readGitCredentials(deployment, secrets),
    readOciCredentials(deployment, secrets),
    readHelmCredentials(deployment, secrets),
  ]);
  return { git, oci, helm };
}

/** In the order of the spec: the first match wins. Throws SourceError if a Secret is missing. */
export async function readGitCredentials(deployment: Deployment, secrets: Secrets): Promise<GitCredential[]> {
  const { gitCredentials, source } = deployment.spec;
  return readEach(deployment, "git", gitCredentials, secrets, ({ host, path, bySource }, secretName, data) => ({
    host: host || "*",
    path,
    ...(bySource && placeOfSource(source.url)),
    secretName,
    username: data["username"] || "*",
    password: data["password"],
    identity: data["identity"],
    knownHosts: data["known_hosts"],
    ca: data["caFile"],
  }));
}

/** In the order of the spec: the first match wins. Throws SourceError if a Secret is missing. */
export async function readOciCredentials(deployment: Deployment, secrets: Secrets): Promise<OciCredential[]> {
  const { ociCredentials } = deployment.spec;
  return readEach(deployment, "oci", ociCredentials, secrets, ({ registry, repository }, secretName, data) => ({
    registry: registry ?? "",
    repository,
    secretName,
    username: data["username"],
    password: data["password"],
    identityToken: data["identityToken"],
    token: data["token"],
    plainHttp: isTrue(data["plainHttp"]),
    insecureSkipTlsVerify: isTrue(data["insecureSkipTlsVerify"]),
    ...certificatesOf(data),
  }));
}

async function readHelmCredentials(deployment: Deployment, secrets: Secrets): Promise<HelmCredential[]> {
  const { helmCredentials } = deployment.spec;
  return readEach(deployment, "helm", helmCredentials, secrets, ({ host, path, bySecret }, secretName, data) => ({
    host: host ?? "",
    path,
    ...(bySecret && placeOf(data)),
    secretName,
    username: data["username"],
    password: data["password"],
    passCredentialsAll: isTrue(data["passCredentialsAll"]),
    insecureSkipTlsVerify: isTrue(data["insecure"] ?? data["insecureSkipTlsVerify"]),
    ...certificatesOf(data),
  }));
}

/** The hosts for the source's own login (`secretRef`); the source's URL may be that of an artifact. */
function placeOfSource(url: string): Pick<GitCredential, "host" | "namedHost"> {
  const { host = "", hostAndPort = "*" } = parseRepoUrl(url) ?? {};
  return { host: hostAndPort, namedHost: host };
}

/** The Helm repository that a Secret of the older form names. */
function placeOf(data: Data): Pick<HelmCredential, "host" | "path" | "credentialsId"> {
  const url = URL.parse(data["url"]?.trim() ?? "");
  const path = url?.pathname.replace(/^\/|\/$/g, "");
  return { host: url?.host ?? "", path: path || undefined, credentialsId: data["credentialsId"] || undefined };
}

interface SecretName {
  readonly secretName: string;
  readonly bySource?: boolean | undefined;
  readonly bySecret?: boolean | undefined;
}

async function readEach<Ref extends SecretName, T>(
  { key, spec }: Deployment,
  list: "git" | "oci" | "helm",
  refs: readonly Ref[],
  secrets: Secrets,
  toCredential: (ref: Ref, secretName: string, data: Data) => T,
): Promise<T[]> {
  return Promise.all(
    refs.map(async (ref) => {
      const data = await secrets.get(key.namespace, ref.secretName, spec.serviceAccountName);
      if (data !== undefined) return toCredential(ref, `${key.namespace}/${ref.secretName}`, data);
      const { bySource = false, bySecret = false } = ref;
      const older = bySource ? "spec.source.secretRef" : bySecret ? "spec.helmCredentials" : undefined;
      const where = `${older ?? `spec.credentials.${list}`} of ${keyText(key)}`;
      throw new SourceError(
        "unauthorized",
        `failed to get secret '${ref.secretName}': it does not exist in namespace ${key.namespace}, but ${where} references it`,
      );
    }),
  );
}

/** The shorter name takes precedence even if its value is empty, as in kluctl. */
function certificatesOf(data: Data): Pick<OciCredential, "cert" | "key" | "ca"> {
  return {
    cert: data["cert"] ?? data["certFile"],
    key: data["key"] ?? data["keyFile"],
    ca: data["ca"] ?? data["caFile"],
  };
}

/** Equal for deployments that use the same remote with the same logins; computed without reading a Secret. */
export function loginKey({ key, spec }: Deployment): string {
  const { gitCredentials, source, serviceAccountName } = spec;
  if (gitCredentials.length === 0) return JSON.stringify([source.url]);
  return JSON.stringify([source.url, key.namespace, gitCredentials, serviceAccountName]);
}

/** The same for another remote, which a deployment includes. Equal to the key of those that follow it with the same logins. */
export function includedLoginKey({ key, spec }: Deployment, url: string): string {
  const { gitCredentials, source, serviceAccountName } = spec;
  if (gitCredentials.length === 0) return JSON.stringify([url]);
  // A login of its own source is for the host of that source only.
  const [own, included] = [placeOfSource(source.url), placeOfSource(url)];
  const isSame = own.host === included.host && own.namedHost === included.namedHost;
  const isOther = gitCredentials.some(({ bySource }) => bySource) && !isSame;
  const login = [key.namespace, gitCredentials, serviceAccountName];
  return JSON.stringify([url, ...login, ...(isOther ? [own] : [])]);
}

interface UsedArtifact {
  readonly deployment: Deployment;
  readonly source: OciSource;
}

/** Equal for uses of the same tag with the same logins; computed without reading a Secret. */
export function tagKey({ deployment: { key, spec }, source }: UsedArtifact): string {
  const { ociCredentials, serviceAccountName } = spec;
  const tag = [source.url, source.ref.tag];
  if (ociCredentials.length === 0) return JSON.stringify(tag);
  return JSON.stringify([...tag, key.namespace, ociCredentials, serviceAccountName]);
}

/** Equal for deployments that share all their logins. */
export function credentialsKey(deployment: Deployment): string {
  const { ociCredentials, helmCredentials, serviceAccountName } = deployment.spec;
  if (ociCredentials.length + helmCredentials.length === 0) return loginKey(deployment);
  const { namespace } = deployment.key;
  return JSON.stringify([loginKey(deployment), namespace, ociCredentials, helmCredentials, serviceAccountName]);
}

/** All parts of the logins that must not be shown, for redaction; values shorter than 6 characters are left out. */
export function credentialSecrets({ git, oci, helm }: Credentials): string[] {
  const texts = [
    ...git.flatMap(({ password, identity }) => [password, ...withLines(identity)]),
    ...oci.flatMap(({ password, identityToken, token, key }) => [password, identityToken, token, ...withLines(key)]),
    ...helm.flatMap(({ password, key }) => [password, ...withLines(key)]),
  ];
  return texts
    .filter((secret) => secret !== undefined)
    .map((secret) => secret.trim())
    .filter((secret) => secret.length >= 6);
}

/** A message may contain a private key line by line. */
function withLines(key: string | undefined): (string | undefined)[] {
  return [key, ...(key?.split("\n") ?? [])];
}
