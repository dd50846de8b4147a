/** From a deployment's logins to what kluctl understands. */
import { join } from "node:path";
import { PrepareError } from "../errors.ts";
import type { Credentials, GitCredential, HelmCredential, OciCredential } from "../model.ts";
import type { Run } from "../ports.ts";
import { fetchedRepositories, forEachHost } from "./asking-hosts.ts";
import type { LoginFields } from "./environment.ts";

export interface Logins {
  readonly git: readonly LoginFields[];
  readonly oci: readonly LoginFields[];
  readonly helm: readonly LoginFields[];
  /** The file with the keys of ssh hosts that one of the logins knows; none without a login for ssh. */
  readonly knownHosts?: string | undefined;
  /** Path → content, to be written before kluctl starts. */
  readonly files: ReadonlyMap<string, string>;
}

/** Keeps the content for a file of that name, and says where it will be; nothing for no content. */
type ToFile = (name: string, content: string | undefined) => string | undefined;

/**
 * By environment, which every kluctl reads, and where other users of the machine see nothing: the flags for ssh came
 * after 2.22. kluctl uses the password of a git login for https and its key for ssh. What it has no variable for is the
 * known hosts of a single login, so all logins of a run share theirs. Each line of them names its host anyway.
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
  // Even with nothing in it: without one kluctl would look in its home, and ask somebody who is not there.
  const knownHosts = git.some(({ SSH_KEY }) => SSH_KEY !== undefined) ? join(dir, "known_hosts") : undefined;
  if (knownHosts !== undefined) {
    files.set(knownHosts, usable.flatMap((one) => (one.knownHosts ? withNewline(one.knownHosts) : [])).join(""));
  }
  // A registry or host that is not named is none: kluctl would skip the whole set, or take it for another.
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
    // kluctl compares with the lower-cased URL, its path without the leading slash.
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
    // By this name kluctl's library knows Docker's registry.
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

/** Whether to verify is always said: the server's own default is not for a deployment's logins. */
function toTlsFields(login: OciCredential | HelmCredential, name: string, file: ToFile): LoginFields {
  return {
    CERT_FILE: file(`${name}.cert`, login.cert),
    KEY_FILE: file(`${name}.key`, login.key),
    CA_FILE: file(`${name}.ca`, login.ca),
    INSECURE_SKIP_TLS_VERIFY: String(login.insecureSkipTlsVerify),
  };
}

/** Node would put the value into its error's message. */
function refuseNul(
  kind: string,
  { secretName }: { secretName: string },
  values: readonly (string | undefined)[],
): void {
  if (values.some((value) => value?.includes("\0"))) {
    throw new PrepareError(`The ${kind} login in secret ${secretName} has a NUL character.`);
  }
}

/** kluctl's words for it name a variable of ours, which nobody can set. */
export function explainHostKey(text: string): string {
  return text.replaceAll(
    "host not found and SSH_KNOWN_HOSTS has been set",
    "the host's key is not known: put it into known_hosts of the secret",
  );
}

/** Whoever refuses a login says so in many ways, and kluctl passes on what it says: which login it was, neither knows. */
const refused = /\b401\b.*Unauthorized|authentication required|UNAUTHORIZED|unable to authenticate|into known_hosts/;
/** The API server's word for it, where a kubeconfig of the deployment's own leads to. */
const refusedByCluster = "the server has asked for the client to provide credentials";

/** `stderr`: of the run that failed. */
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
  // Of git, kluctl does not say which repository it was.
  const repositories = error.message.includes("://") ? [] : fetchedRepositories(stderr).slice(0, 10);
  const mentioned = `${error.message} ${repositories.join(" ")}`;
  const about = repositories.length > 0 ? `Repositories fetched: ${repositories.join(", ")}. ` : "";
  // Those for other hosts are nobody's business who reads this.
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

/** A key whose last line does not end is no key to OpenSSH's parsers, and YAML loses that newline easily. */
function withNewline(text: string): string {
  return text.endsWith("\n") ? text : `${text}\n`;
}
