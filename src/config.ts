/** Builds the Config from options, TOWLINE_* variables and the configuration file. The only reader of the environment. */
import { checkDocument } from "./config/checks.ts";
import { environmentSecrets } from "./config/environment-secrets.ts";
import { readConfigFile } from "./config/file.ts";
import { type ConfigSources, mergeSources, type MergedConfig, withOrigin } from "./config/merge.ts";
import { isBlock } from "./config/network.ts";
import { maskSecrets } from "./config/print.ts";
import { type Problem, toConfigError, toProblems } from "./config/problems.ts";
import { configSchema } from "./config/schema.ts";
import { Secret } from "./config/secret.ts";
import type { Config } from "./config/shape.ts";
import { toConfig } from "./config/to-config.ts";

export { Secret } from "./config/secret.ts";
export type * from "./config/shape.ts";

/** A Config with its document, in which secrets are masked, and the origins of its values. */
export interface LoadedConfig {
  readonly config: Config;
  readonly document: MergedConfig["document"];
  readonly origins: MergedConfig["origins"];
}

/** Throws a ConfigError that names every problem. */
export function parseConfig(sources: ConfigSources): Config {
  return resolveConfig(sources).config;
}

export interface LoadSources {
  readonly env: ConfigSources["env"];
  /** By the key's path; `config` is the path of the file. */
  readonly argvFlags?: ConfigSources["flags"];
  readonly flagNames?: ConfigSources["flagNames"];
  readonly defaults?: ConfigSources["defaults"];
  readonly readFile: (path: string) => string;
}

/** Reads the file of --config or TOWLINE_CONFIG, and files with secrets. */
export function loadConfig({ env, argvFlags = {}, flagNames, defaults, readFile }: LoadSources): LoadedConfig {
  const named = argvFlags["config"] ?? env["TOWLINE_CONFIG"];
  const file = typeof named === "string" && named !== "" ? readConfigFile(named, readFile) : undefined;
  return resolveConfig({ env, file, flags: argvFlags, flagNames, defaults, readFile });
}

/** Warnings about a valid configuration, logged at start. */
export function configWarnings({ forges, page }: Config): readonly string[] {
  const warnings = forges
    .filter((forge) => forge.insecureAllowUnsigned)
    .map(({ id }) => `forge ${id} accepts unsigned webhooks: anyone who can reach the port can send them`);
  if (page?.proxy && !page.proxy.secret && page.proxy.addresses.some(isBlock)) {
    warnings.push(
      "page.proxyAddresses has address blocks and page.proxySecret is not set: every client in these blocks can impersonate any user of the page",
    );
  }
  if (forges.length === 0) warnings.push("no git host (forge) is configured: no webhooks, git is only polled");
  return warnings;
}

/** Values of all secrets, for redaction. */
export function secretValues({ forges, redis, page, preview, notifications, recording }: Config): readonly string[] {
  const secrets = forges.flatMap(({ token, app, webhookSecrets }) => [
    ...webhookSecrets,
    ...(token ? [token] : []),
    ...(app ? [app.privateKey] : []),
  ]);
  for (const { url, token, signingKeys } of notifications.targets)
    secrets.push(...signingKeys, ...(token ? [token] : []), ...(url ? secretParts(url) : []));
  secrets.push(...recording.keys);
  if (page?.token) secrets.push(page.token);
  if (page?.proxy?.secret) secrets.push(page.proxy.secret.value);
  if (page?.oidc) secrets.push(page.oidc.clientSecret);
  if (preview.runner.token) secrets.push(preview.runner.token);
  if (redis.sentinelPassword) secrets.push(redis.sentinelPassword);
  const url = redis.url?.reveal();
  const password = url && URL.parse(url)?.password;
  return [...secrets.map((secret) => secret.reveal()), ...(password ? [password, decodeURIComponent(password)] : [])];
}

/** Of an address: its whole, and each part that may identify a webhook or be a password. */
function secretParts(address: Secret): readonly Secret[] {
  const { pathname = "", search = "", searchParams, password = "" } = URL.parse(address.reveal()) ?? {};
  const values = [...(searchParams?.values() ?? [])].filter((value) => value.length >= 8);
  const segments = pathname.split("/").filter((segment) => segment.length >= 12);
  const parts = [password, decoded(password), search, ...values, ...values.map(encodeURIComponent), ...segments];
  return [address, ...parts.filter((part) => part !== "").map((part) => new Secret(part))];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a percent sign that escapes nothing
  }
}

/** Like `secretValues`, with the credentials in the process's environment. */
export function knownSecrets(config: Config): readonly string[] {
  return [...secretValues(config), ...environmentSecrets(process.env)];
}

function resolveConfig(sources: ConfigSources): LoadedConfig {
  const merged = mergeSources(sources);
  const parsed = configSchema.safeParse(merged.document, { reportInput: true });
  const found: Problem[] = [
    ...(parsed.error ? toProblems(parsed.error.issues) : []),
    ...checkDocument(merged.document),
  ];
  const problems = [
    ...merged.problems,
    ...found.map((problem) => ({ ...problem, where: withOrigin(problem.where, merged.origins) })),
  ];
  if (!parsed.success || problems.length > 0) throw toConfigError(problems);
  const { document, origins } = merged;
  return { config: toConfig(parsed.data, sources.env), document: maskSecrets(document), origins };
}
