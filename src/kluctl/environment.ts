/**
 * What kluctl sees of our environment. kluctl takes every flag from a `KLUCTL_<FLAG>` variable as well, and templates can
 * read the whole environment: so nothing passes that is not named here. Pure.
 */
import { delimiter } from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

const names = new Set([
  "PATH",
  "TZ",
  "LANG",
  "LC_ALL",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "SSH_KNOWN_HOSTS",
  "DOCKER_CONFIG",
  "KLUCTL_SSH_DISABLE_STRICT_HOST_KEY_CHECKING",
  "GOGC",
  "GOMEMLIMIT",
]);

/**
 * kluctl lives for less than a second, and collects garbage six times meanwhile. With these it does so once, which saves
 * a ninth of its CPU time for a few megabytes. The limit makes it collect more often where a project is large.
 */
const garbageCollection = { GOGC: "400", GOMEMLIMIT: "512MiB" };

const proxies = /^(HTTP|HTTPS|NO|ALL)_PROXY$/i;
/** For vars from cloud secret stores, and SOPS with a key in one. SOPS's own and GPG's variables stay out. */
const clouds = /^(AWS|GOOGLE|AZURE|VAULT)_/;
/** Logins for everybody. Only these fields: `KLUCTL_GIT_CACHE_UPDATE_INTERVAL` is a flag, not a login. */
const helmLogins =
  /^KLUCTL_HELM(_\d+)?_(HOST|PATH|USERNAME|PASSWORD|CERT_FILE|KEY_FILE|CA_FILE|INSECURE_SKIP_TLS_VERIFY|PASS_CREDENTIALS_ALL|DEFAULT_INSECURE_SKIP_TLS_VERIFY)$/;
const registryLogins =
  /^KLUCTL_REGISTRY(_\d+)?_(HOST|PATH|REPOSITORY|USERNAME|PASSWORD|IDENTITY_TOKEN|TOKEN|PLAIN_HTTP|CERT_FILE|KEY_FILE|CA_FILE|INSECURE_SKIP_TLS_VERIFY|DEFAULT_INSECURE_SKIP_TLS_VERIFY)$/;
const gitLogins = /^KLUCTL_GIT(?:_(?<index>\d+))?_(?<field>HOST|PATH|PATH_PREFIX|USERNAME|PASSWORD|SSH_KEY|CA_BUNDLE)$/;

/** The part of the server's own environment that every kluctl gets. */
export function toSharedEnvironment(env: Environment): Record<string, string> {
  const passed = Object.entries(env).filter(
    ([name]) =>
      names.has(name) ||
      proxies.test(name) ||
      clouds.test(name) ||
      helmLogins.test(name) ||
      registryLogins.test(name) ||
      gitLogins.test(name),
  );
  const set = passed.filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { ...garbageCollection, ...Object.fromEntries(set) };
}

export interface GitLogin {
  readonly host: string;
  readonly path?: string | undefined;
  readonly username: string;
  readonly password?: string | undefined;
  /** A file of PEM certificates. */
  readonly caFile?: string | undefined;
  /** A file with a private key. */
  readonly keyFile?: string | undefined;
}

/**
 * kluctl tries git logins in the order of their index, one without an index first. The deployment's own come first, so
 * those of the server's environment move behind them. Hosts that the server knows stay known.
 */
export function withGitLogins(
  shared: Readonly<Record<string, string>>,
  logins: readonly GitLogin[],
  knownHosts?: string,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(shared)) {
    const { index, field } = gitLogins.exec(name)?.groups ?? {};
    const moved = logins.length + (index === undefined ? 0 : Number(index) + 1);
    env[field === undefined ? name : `KLUCTL_GIT_${moved}_${field}`] = value;
  }
  for (const [index, { host, path, username, password, caFile, keyFile }] of logins.entries()) {
    const login = { HOST: host, PATH: path, USERNAME: username };
    const fields = { ...login, PASSWORD: password, CA_BUNDLE: caFile, SSH_KEY: keyFile };
    for (const [field, value] of Object.entries(fields)) {
      if (value !== undefined) env[`KLUCTL_GIT_${index}_${field}`] = value;
    }
  }
  if (knownHosts !== undefined) {
    env["SSH_KNOWN_HOSTS"] = [knownHosts, env["SSH_KNOWN_HOSTS"]].filter(Boolean).join(delimiter);
  }
  return env;
}
