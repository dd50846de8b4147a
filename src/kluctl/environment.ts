/**
 * The part of the server's environment that kluctl gets. kluctl reads every flag from a `KLUCTL_<FLAG>` variable too,
 * and templates can read the whole environment, so only the variables named here are passed on. Pure.
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
  "KLUCTL_HELM_DEFAULT_INSECURE_SKIP_TLS_VERIFY",
  "KLUCTL_REGISTRY_DEFAULT_INSECURE_SKIP_TLS_VERIFY",
  "GOGC",
  "GOMAXPROCS",
  "GOMEMLIMIT",
]);

/** The variables that give no access to logins: neither a file with logins nor one with known hosts. */
const unsecret = new Set([...names].filter((name) => name !== "DOCKER_CONFIG" && name !== "SSH_KNOWN_HOSTS"));

/**
 * kluctl runs for less than a second and collects garbage half a dozen times in it. With these settings it hardly ever
 * does, which saves a quarter of its CPU time and costs some ten megabytes. With the memory limit, large projects
 * trigger collection more often.
 */
const garbageCollection = { GOGC: "800", GOMEMLIMIT: "512MiB" };

const proxies = /^(HTTP|HTTPS|NO|ALL)_PROXY$/i;
/**
 * Needed for vars from cloud secret stores and for SOPS with a key in a cloud KMS. The variables of SOPS itself and of
 * GPG are not passed on: their keys would decrypt for every deployment.
 */
const clouds = /^(AWS|GOOGLE|AZURE|VAULT)_/;
/** Logins that every deployment uses. Only these fields: `KLUCTL_GIT_CACHE_UPDATE_INTERVAL` is a flag, not a login. */
const logins = {
  git: toLoginPattern("GIT", "HOST|PATH|PATH_PREFIX|USERNAME|PASSWORD|SSH_KEY|CA_BUNDLE"),
  helm: toLoginPattern(
    "HELM",
    "HOST|PATH|USERNAME|PASSWORD|CERT_FILE|KEY_FILE|CA_FILE|INSECURE_SKIP_TLS_VERIFY|PASS_CREDENTIALS_ALL",
  ),
  oci: toLoginPattern(
    "REGISTRY",
    "HOST|PATH|REPOSITORY|USERNAME|PASSWORD|IDENTITY_TOKEN|TOKEN|PLAIN_HTTP|CERT_FILE|KEY_FILE|CA_FILE|INSECURE_SKIP_TLS_VERIFY",
  ),
};
const prefixes = { git: "KLUCTL_GIT", helm: "KLUCTL_HELM", oci: "KLUCTL_REGISTRY" };
type Kind = keyof typeof logins;

function toLoginPattern(name: string, fields: string): RegExp {
  return new RegExp(`^KLUCTL_${name}(?:_(?<index>\\d+))?_(?<field>${fields})$`);
}

/** Returns the part of the server's own environment that every kluctl gets. */
export function toSharedEnvironment(env: Environment): Record<string, string> {
  const passed = Object.entries(env).filter(
    ([name]) =>
      names.has(name) ||
      proxies.test(name) ||
      clouds.test(name) ||
      Object.values(logins).some((pattern) => pattern.test(name)),
  );
  const set = passed.filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { ...garbageCollection, ...Object.fromEntries(set) };
}

/**
 * For the git that kluctl starts for a kustomization from another repository. The project controls its arguments: with
 * a local path or an ssh URL, `?ref=--upload-pack=` would start any program, so only HTTP(S) is allowed. A repository's
 * configuration must not start programs either.
 */
const harmlessGit = {
  GIT_ALLOW_PROTOCOL: "https:http",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_TERMINAL_PROMPT: "0",
  GIT_HTTP_PROXY_AUTHMETHOD: "basic", // otherwise git first asks which methods there are, and our proxy does not answer that
  ...toGitConfig({ "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "safe.bareRepository": "explicit" }),
};

function toGitConfig(settings: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(settings).flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return Object.fromEntries([["GIT_CONFIG_COUNT", String(Object.keys(settings).length)], ...entries]) as Record<
    string,
    string
  >;
}

/**
 * The same for projects that nobody has approved yet. Templates can read the environment, so it has no login and no
 * variable that leads to one.
 */
export function toConfinedEnvironment(env: Environment): Record<string, string> {
  const passed = Object.entries(toSharedEnvironment(env)).filter(([name]) => unsecret.has(name));
  return { ...Object.fromEntries(passed), ...harmlessGit };
}

/** One login as kluctl reads it: the suffix of each variable's name, and its value. */
export type LoginFields = Readonly<Record<string, string | undefined>>;

/**
 * Adds the deployment's own logins to the shared environment. kluctl tries the logins of a kind in the order of their
 * index, the one without an index first. The deployment's own come first, so the server's are renumbered to follow
 * them. Hosts that the server knows stay known.
 */
export function withLogins(
  shared: Readonly<Record<string, string>>,
  own: Readonly<Record<Kind, readonly LoginFields[]>>,
  knownHosts?: string,
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(shared)) env[moved(name, own)] = value;
  for (const kind of ["git", "helm", "oci"] as const) {
    for (const [index, fields] of own[kind].entries()) {
      for (const [field, value] of Object.entries(fields)) {
        if (value !== undefined) env[`${prefixes[kind]}_${index}_${field}`] = value;
      }
    }
  }
  if (knownHosts !== undefined) {
    env["SSH_KNOWN_HOSTS"] = [knownHosts, env["SSH_KNOWN_HOSTS"]].filter(Boolean).join(delimiter);
  }
  return env;
}

/** Adds the deployment's own decryption settings and removes the variables that they replace. */
export function withDecryption(
  env: Readonly<Record<string, string>>,
  own: { readonly env: Readonly<Record<string, string>>; readonly dropped: readonly RegExp[] },
): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => !own.dropped.some((pattern) => pattern.test(name)));
  return { ...Object.fromEntries(kept), ...own.env };
}

/** Returns the name of a server's variable after renumbering it behind the deployment's own logins. */
function moved(name: string, own: Readonly<Record<Kind, readonly unknown[]>>): string {
  for (const kind of ["git", "helm", "oci"] as const) {
    const { index, field } = logins[kind].exec(name)?.groups ?? {};
    if (field === undefined) continue;
    return `${prefixes[kind]}_${own[kind].length + (index === undefined ? 0 : Number(index) + 1)}_${field}`;
  }
  return name;
}
