/** Translates a deployment's logins to environment variables and files for kluctl. */
import { join } from "node:path";
import { PrepareError } from "../errors.ts";
import type { Credentials, GitCredential, HelmCredential, OciCredential, Run } from "../model.ts";
import { fetchedRepositories, forEachHost } from "./asking-hosts.ts";
import type { LoginFields } from "./environment.ts";

export interface Logins {
  readonly git: readonly LoginFields[];
  readonly oci: readonly LoginFields[];
  readonly helm: readonly LoginFields[];
  /** Path of the file with the known hosts of all ssh logins; absent without an ssh login. */
  readonly knownHosts?: string | undefined;
  /** Path → content, to be written before kluctl starts. */
  readonly files: ReadonlyMap<string, string>;
}

/** Registers the content to be written to a file of that name and returns its path; `undefined` for empty content. */
type ToFile = (name: string, content: string | undefined) => string | undefined;

/**
 * Uses environment variables, which every version of kluctl reads (the flags for ssh came after 2.22) and other users
 * of the machine cannot see. kluctl uses the password of a git login for https and its key for ssh. It has no variable
 * for the known hosts of a single login, so all logins of a run share one file; each line in it names its host anyway.
 * `asking`: the hosts that asked kluctl for a login (see asking-hosts.ts).
 */
export function toLogins(credentials: Credentials, dir: string, asking: readonly string[] = []): Logins {
  const files = new Map<string, string>();
  const file: ToFile = (name, content) => {
    if (!content) return undefined;
    const path = join(dir, name);
    files.set(path, content);
    return path;
  };

  const usable = credentials.git.flatMap(forEachHost(asking)).filter(({ password, identity }) => password || identity);
  const git = usable.map((login, index) => toGitFields(login, `git-${index}`, file));
  // The file is written even if it is empty: without one, kluctl would use the one in its home, and prompt for unknown
  // hosts.
  const knownHosts = git.some(({ SSH_KEY }) => SSH_KEY !== undefined) ? join(dir, "known_hosts") : undefined;
  if (knownHosts !== undefined) {
    files.set(knownHosts, usable.flatMap((one) => (one.knownHosts ? withNewline(one.knownHosts) : [])).join(""));
  }
  // Skip entries without a registry or host: kluctl would ignore their variables, or use the login for another host.
  const oci = credentials.oci
    .filter(({ registry }) => registry !== "")
    .map((login, index) => toOciFields(login, `oci-${index}`, file));
  const helm = credentials.helm
    .filter(({ host, credentialsId }) => host !== "" || credentialsId !== undefined)
    .map((login, index) => toHelmFields(login, `helm-${index}`, file));
  return { git, oci, helm, knownHosts, files };
}

function toGitFields(login: GitCredential, name: string, file: ToFile): LoginFields {
  const { username, password, identity, ca } = login;
  refuseNul("git", login, [username, password]);
  return {
    // kluctl compares with the lower-cased URL, whose path has no leading slash.
    HOST: login.host.toLowerCase(),
    PATH: login.path?.toLowerCase().replace(/^\/+/, ""),
    USERNAME: username,
    PASSWORD: password,
    CA_BUNDLE: file(`${name}.ca`, ca),
    SSH_KEY: file(`${name}.key`, identity && withNewline(identity)),
  };
}

function toOciFields(login: OciCredential, name: string, file: ToFile): LoginFields {
  const { username, password, identityToken, token } = login;
  refuseNul("OCI", login, [username, password, identityToken, token]);
  return {
    // The name that kluctl's library uses for Docker's registry.
    HOST: login.registry === "docker.io" ? "index.docker.io" : login.registry,
    REPOSITORY: login.repository,
    USERNAME: username,
    PASSWORD: password,
    IDENTITY_TOKEN: identityToken,
    TOKEN: token,
    PLAIN_HTTP: String(login.plainHttp),
    ...toTlsFields(login, name, file),
  };
}

function toHelmFields(login: HelmCredential, name: string, file: ToFile): LoginFields {
  const { username, password } = login;
  refuseNul("Helm", login, [username, password]);
  return {
    HOST: login.host,
    CREDENTIALS_ID: login.credentialsId,
    PATH: login.path,
    USERNAME: username,
    PASSWORD: password,
    PASS_CREDENTIALS_ALL: String(login.passCredentialsAll),
    ...toTlsFields(login, name, file),
  };
}

/** INSECURE_SKIP_TLS_VERIFY is always set, so that the server's own default does not apply to a deployment's logins. */
function toTlsFields(login: OciCredential | HelmCredential, name: string, file: ToFile): LoginFields {
  return {
    CERT_FILE: file(`${name}.cert`, login.cert),
    KEY_FILE: file(`${name}.key`, login.key),
    CA_FILE: file(`${name}.ca`, login.ca),
    INSECURE_SKIP_TLS_VERIFY: String(login.insecureSkipTlsVerify),
  };
}

/** Rejects NUL characters here, because Node would put the value into its error message. */
function refuseNul(
  kind: string,
  { secretName }: { secretName: string },
  values: readonly (string | undefined)[],
): void {
  if (values.some((value) => value?.includes("\0"))) {
    throw new PrepareError(`The ${kind} login in secret ${secretName} has a NUL character.`);
  }
}

/** Rewords kluctl's message, which names a variable that the server sets and users cannot. */
export function explainHostKey(text: string): string {
  return text.replaceAll(
    "host not found and SSH_KNOWN_HOSTS has been set",
    "the host's key is not known: put it into known_hosts of the secret",
  );
}

/**
 * Servers reject logins with many different messages, which kluctl passes on. None of them says which login was used.
 */
const refused = /\b401\b.*Unauthorized|authentication required|UNAUTHORIZED|unable to authenticate|into known_hosts/;
/** The message of an API server that rejects the login of a deployment's own kubeconfig. */
const refusedByCluster = "the server has asked for the client to provide credentials";

/** Adds to a rejected login's error which logins were configured for it. `stderr`: the output of the failed run. */
export function explainRefusal(
  error: unknown,
  { credentials, cluster }: Pick<Run, "credentials" | "cluster">,
  stderr = "",
): unknown {
  if (!(error instanceof PrepareError)) return error;
  if (cluster !== undefined && error.message.includes(refusedByCluster)) {
    return withAdvice(error, "The cluster of spec.kubeConfig rejected the login in that kubeconfig.");
  }
  if (!refused.test(error.message)) return error;
  const { git, oci, helm } = credentials;
  const given = [
    ...git.map(({ host, path, secretName }) => ["git", host, path, secretName] as const),
    ...oci.map(({ registry, repository, secretName }) => ["oci", registry, repository, secretName] as const),
    ...helm.map(({ host, path, secretName }) => ["helm", host, path, secretName] as const),
  ];
  // For git, kluctl's error does not name the repository.
  const repositories = error.message.includes("://") ? [] : fetchedRepositories(stderr).slice(0, 10);
  const mentioned = `${error.message} ${repositories.join(" ")}`;
  const about = repositories.length > 0 ? `Repositories fetched: ${repositories.join(", ")}. ` : "";
  // Leave out logins for other hosts: readers of this message need not know about them.
  const fitting = given.filter(([, host, , name]) => name !== "" && mentioned.includes(host === "*" ? "" : host));
  if (fitting.length === 0) {
    const how = "an entry's host must be exactly the URL's host, including the port";
    return withAdvice(error, `${about}No entry of spec.credentials.git, oci or helm matches its host: ${how}.`);
  }
  const list = fitting.map(([kind, host, path, name]) => {
    return `spec.credentials.${kind} for ${host}${path ? `/${path.replace(/^\/+/, "")}` : ""} (secret ${name})`;
  });
  return withAdvice(error, `${about}Configured logins for it: ${list.join(", ")}.`);
}

function withAdvice(error: PrepareError, advice: string): PrepareError {
  return new PrepareError(`${error.message}\n\n${advice}`, { cause: error });
}

/** OpenSSH's parsers reject a key without a newline at the end, and YAML easily loses it. */
function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
