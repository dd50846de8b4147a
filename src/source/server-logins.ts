/**
 * The logins that the server itself was given for all deployments, read from where kluctl reads them: numbered sets of
 * variables, and Docker's configuration. A deployment's own logins take precedence.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { SourceError } from "../errors.ts";
import { isTrue } from "../kit/go-bool.ts";
import { parseJson } from "../kit/json.ts";
import type { GitCredential, OciCredential } from "../model.ts";

type Env = Readonly<Record<string, string | undefined>>;
type Fields = Readonly<Record<string, string>>;

/** Read on every call: the files may be renewed while the server runs. */
export async function readServerGitLogins(
  env: Env,
): Promise<{ readonly logins: readonly GitCredential[]; readonly knownHosts: string | undefined }> {
  const sets = fieldSets("KLUCTL_GIT", env).filter(({ HOST }) => HOST);
  const knownHosts = await readKnownHosts(env["SSH_KNOWN_HOSTS"]);
  const logins = await Promise.all(
    sets.map(async ({ HOST = "", PATH, PATH_PREFIX, USERNAME = "", PASSWORD, SSH_KEY, CA_BUNDLE }) => ({
      host: HOST,
      path: PATH ?? (PATH_PREFIX && `${PATH_PREFIX}**`),
      secretName: "",
      username: USERNAME,
      password: PASSWORD,
      identity: await readNamed("KLUCTL_GIT…SSH_KEY", SSH_KEY),
      ca: await readNamed("KLUCTL_GIT…CA_BUNDLE", CA_BUNDLE),
      knownHosts,
    })),
  );
  return { logins, knownHosts };
}

export async function readServerRegistryLogins(env: Env): Promise<OciCredential[]> {
  const insecure = isTrue(env["KLUCTL_REGISTRY_DEFAULT_INSECURE_SKIP_TLS_VERIFY"]);
  const sets = fieldSets("KLUCTL_REGISTRY", env).filter(({ HOST }) => HOST);
  const named = await Promise.all(
    sets.map(async (set) => ({
      registry: set["HOST"] ?? "",
      repository: set["REPOSITORY"],
      secretName: "",
      username: set["USERNAME"],
      password: set["PASSWORD"],
      identityToken: set["IDENTITY_TOKEN"],
      token: set["TOKEN"],
      plainHttp: isTrue(set["PLAIN_HTTP"]),
      insecureSkipTlsVerify: set["INSECURE_SKIP_TLS_VERIFY"] ? isTrue(set["INSECURE_SKIP_TLS_VERIFY"]) : insecure,
      cert: await readNamed("KLUCTL_REGISTRY…CERT_FILE", set["CERT_FILE"]),
      key: await readNamed("KLUCTL_REGISTRY…KEY_FILE", set["KEY_FILE"]),
      ca: await readNamed("KLUCTL_REGISTRY…CA_FILE", set["CA_FILE"]),
    })),
  );
  return [...named, ...(await readDockerConfig(env))];
}

/** Collects `PREFIX_<n>_<FIELD>` in the order of n, the set without a number first. */
function fieldSets(prefix: string, env: Env): Fields[] {
  const sets = new Map<number, Record<string, string>>();
  const pattern = new RegExp(`^${prefix}(?:_(\\d+))?_(\\D.*)$`);
  for (const [name, value] of Object.entries(env)) {
    const [, index = "-1", field] = pattern.exec(name) ?? [];
    if (field === undefined || value === undefined) continue;
    const set = sets.get(Number(index)) ?? {};
    set[field] = value;
    sets.set(Number(index), set);
  }
  return [...sets].sort(([one], [other]) => one - other).map(([, set]) => set);
}

const DockerConfig = z.object({
  auths: z.record(
    z.string(),
    z.object({
      auth: z.string().optional(),
      username: z.string().optional(),
      password: z.string().optional(),
      identitytoken: z.string().optional(),
      registrytoken: z.string().optional(),
    }),
  ),
});

/** Reads what `docker login` wrote. Credential helpers that the file may name are not run. */
async function readDockerConfig(env: Env): Promise<OciCredential[]> {
  const folder = env["DOCKER_CONFIG"] || (env["HOME"] && join(env["HOME"], ".docker"));
  const text = folder && (await readFile(join(folder, "config.json"), "utf8").catch(() => undefined));
  if (!text) return [];
  const { data } = DockerConfig.safeParse(parseJson(text));
  return Object.entries(data?.auths ?? {}).map(([address, { auth, username, password, ...tokens }]) => {
    const [, user, pass] = /^([^:]*):([^]*)$/.exec(Buffer.from(auth ?? "", "base64").toString("utf8")) ?? [];
    return {
      registry: address.replace(/^https?:\/\//, "").replace(/\/.*$/, ""),
      secretName: "",
      username: username || user,
      // Some versions pad the password with NULs.
      password: password || pass?.replace(/\0+$/, ""),
      identityToken: tokens.identitytoken,
      token: tokens.registrytoken,
      plainHttp: false,
      insecureSkipTlsVerify: false,
    };
  });
}

async function readNamed(variable: string, file: string | undefined): Promise<string | undefined> {
  if (!file) return undefined;
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new SourceError("unauthorized", `the file that ${variable} names cannot be read (${error.code})`);
  });
}

async function readKnownHosts(list: string | undefined): Promise<string | undefined> {
  if (!list) return undefined;
  const files = list.split(":").map((file) => readFile(file, "utf8").catch(() => ""));
  return (await Promise.all(files)).join("\n");
}
