/** `towline webhook ensure`: makes and repairs the webhooks at the git hosts, through their APIs. */
import { loginOf } from "../app/previews.ts";
import type { Config, ForgeConfig } from "../config.ts";
import { secretValues } from "../config.ts";
import { ConfigError } from "../errors.ts";
import { createForge } from "../forge/create-forge.ts";
import { ensureHooks } from "../forge/ensure-hooks.ts";
import type { ForgeLogin } from "../forge/forge-options.ts";
import type { Ensured } from "../forge/hooks.ts";
import { createLogger, createScrubber } from "../log.ts";
import { followsGit, type RepoId } from "../model.ts";
import { parseRepoUrl, repoId } from "../repo-url.ts";
import { listOfBothApis } from "./both-apis.ts";
import { clusterConfig, type ClusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import type { Define, ProgramDeps } from "./commands.ts";
import { readFile } from "./configuration.ts";
import { dataOption, toData } from "./output.ts";
import { parseServerAddress } from "./server-address.ts";
import { plain, table } from "./table.ts";

export interface EnsureFlags {
  readonly url: string;
  readonly forge?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly rotate?: true | undefined;
  readonly dryRun?: true | undefined;
  readonly output: "text" | "json" | "yaml";
}

const help = `
Each repository gets a webhook that sends pushes and pull requests to <url>/webhooks/<forge>, with the first of the forge's
configured secrets. One that sends there already is repaired where it differs: events, content type, switched off, no
secret. Webhooks that send elsewhere are left alone, and so is what ours send besides. <url> is the server's address; where it
ends with /webhooks/<forge>, that part is left off, and only this forge is meant. With a GitHub App it is the App's
own webhook, and whether the App is installed.

The login is the forge's configured one. It may well not be allowed to administer webhooks: --token-file takes another
one for this call alone. Git hosts do not show a webhook's secret: after changing it here, use --rotate.

  towline webhook ensure --url https://towline.example.com --dry-run
  towline webhook ensure example/shop --url https://towline.example.com --token-file admin.token
  towline webhook ensure --url https://towline.example.com --forge gitea --rotate

Exit codes:
  0  all of them are as they have to be; with --dry-run: would be, as far as can be seen
  1  one of them is not: what is printed says why
  2  the command line or the configuration is wrong`;

type Flags = ClusterFlags & EnsureFlags;

export const defineWebhookEnsure: Define = (command, deps, onCode) => {
  withClusterFlags(command)
    .argument("[repos...]", "which: owner/name, or a URL; else those that KluctlDeployments follow")
    .requiredOption("--url <url>", "where git hosts reach the server: https://towline.example.com")
    .option("--forge <id>", "only those of this forge")
    .option("--token-file <file>", "a token that may administer webhooks; - is stdin")
    .option("--rotate", "set the secret again as well")
    .option("--dry-run", "change nothing, and say what would be done")
    .addOption(dataOption())
    .addHelpText("after", help)
    .action(async (repos: readonly string[], flags: Flags) => {
      onCode(await ensureWebhooks(repos, flags, clusterConfig(deps.env, flags), deps));
    });
};

/** Returns the exit code. */
export async function ensureWebhooks(
  repos: readonly string[],
  flags: EnsureFlags,
  cluster: ClusterConfig,
  { stdin, out, err }: Pick<ProgramDeps, "stdin" | "out" | "err">,
): Promise<number> {
  const { base, forge: named } = parseServerAddress(flags.url);
  if (named !== undefined && flags.forge !== undefined && named !== flags.forge) {
    throw new ConfigError(
      `--url is the webhook address of forge ${named}, and --forge is ${flags.forge}: give one of them`,
    );
  }
  const forges = forgesOf(cluster.config, flags.forge ?? named);
  const { tokenFile } = flags;
  const token = tokenFile && (tokenFile === "-" ? await stdin() : readFile(tokenFile)).trim();
  if (token === "") throw new ConfigError(`--token-file ${tokenFile}: it is empty`);
  if (token && forges.length > 1) throw new ConfigError(`which forge is the token for? Say so with --forge`);

  const wanted = repos.length > 0 ? repos.map(parseRepo) : await followed(cluster, err);
  if (wanted.length === 0) throw new Error("no KluctlDeployment follows a git repository: name the repositories");
  const scrub = createScrubber([...secretValues(cluster.config), ...(token ? [token] : [])]);
  const found = await Promise.all(
    forges.map((forge) => ensureForge(forge, { wanted, flags, base, token, alone: forges.length === 1 })),
  );
  const known = new Set(found.flatMap(({ taken }) => taken));
  const others = wanted.filter((one) => !known.has(one)).map(textOf);
  const isBad = found.some(({ results }) => results.some(({ result }) => result === "failed"));
  // Those that nobody named may be on hosts whose webhooks nobody wants.
  const isMissed = others.length > 0 && repos.length > 0;
  const isDry = flags.dryRun === true;
  out(
    scrub(
      flags.output === "text"
        ? found.map((one) => describe(one, isDry)).join("") + describeOthers(others)
        : toData(flags.output, { dryRun: isDry, forges: found.map(toJson), unknown: others }),
    ),
  );
  return isBad || isMissed ? 1 : 0;
}

/** A repository by its identity, or by the name that it has at its host. */
type Wanted = { readonly repo: RepoId } | { readonly name: string };

function textOf(wanted: Wanted): string {
  return "repo" in wanted ? wanted.repo : wanted.name;
}

function parseRepo(text: string): Wanted {
  if (/^[\w.-]+(?:\/[\w.-]+)+$/.test(text)) return { name: text };
  const repo = parseRepoUrl(text) && repoId(text);
  if (repo === undefined) throw new ConfigError(`${plain(text)} is no repository: write owner/name, or its URL`);
  return { repo };
}

async function followed(cluster: ClusterConfig, err: (text: string) => void): Promise<readonly Wanted[]> {
  const { createKubeClient } = await import("../kube/client.ts"); // not for repositories that are named
  const client = createKubeClient(cluster.kubernetes);
  try {
    const found = await listOfBothApis(client, { ...cluster, err });
    const repos = found.map(({ deployment }) => deployment).filter(followsGit);
    return [...new Set(repos.map(({ repo }) => repo))].sort().map((repo) => ({ repo }));
  } finally {
    client.close();
  }
}

function forgesOf({ forges }: Config, id: string | undefined): readonly ForgeConfig[] {
  const ids = forges.map((forge) => forge.id).join(", ") || "none";
  const named = forges.filter((forge) => id === undefined || forge.id === id);
  if (named.length > 0) return named;
  if (id !== undefined) throw new ConfigError(`there is no forge ${id} in the configuration; it has: ${ids}`);
  throw new ConfigError("no forge is configured: give the server's configuration with --config or its variables");
}

interface EnsureOne {
  readonly wanted: readonly Wanted[];
  readonly flags: EnsureFlags;
  readonly base: string;
  readonly token: string | undefined;
  /** A name alone tells nothing where there are several forges. */
  readonly alone: boolean;
}

interface EnsuredForge {
  readonly forge: string;
  readonly url: string;
  readonly results: readonly Ensured[];
  /** Those that are this forge's. */
  readonly taken: readonly Wanted[];
}

async function ensureForge(config: ForgeConfig, options: EnsureOne): Promise<EnsuredForge> {
  const { wanted, flags, base, token, alone } = options;
  const { id, kind, apiUrl, webUrl } = config;
  const url = new URL(`webhooks/${id}`, base).href;
  const log = createLogger({ level: "silent", format: "json" });
  const [secret] = config.webhookSecrets;
  if (secret === undefined) throw new ConfigError(`forge ${id} has no webhook secret: configure one`);
  if (!alone && wanted.some((one) => "name" in one)) {
    throw new ConfigError("at which forge are these repositories? Say so with --forge, or give their URLs");
  }
  const login: ForgeLogin | undefined = token ? { token } : loginOf(config);
  if (login === undefined) {
    const why = ["the forge has no login for its API: give a token with --token-file"];
    return { forge: id, url, results: [{ name: "all", result: "failed", why }], taken: wanted };
  }
  const forge = await createForge({ id, kind, apiUrl, webUrl, login, log });
  const named = wanted.flatMap((one) => {
    const name = "name" in one ? one.name : forge.repoName(one.repo);
    return name === undefined ? [] : [{ one, name }];
  });
  const results = await ensureHooks({
    ...{ id, kind, apiUrl, login, log },
    ...{ rotate: flags.rotate === true, dryRun: flags.dryRun === true },
    wanted: { url, secret: secret.reveal() },
    repoNames: named.map(({ name }) => name),
  });
  return { forge: id, url, results, taken: named.map(({ one }) => one) };
}

function toJson({ forge, url, results }: EnsuredForge) {
  return { forge, url, results: results.map(({ name, result, why }) => ({ name, result, why })) };
}

function describe({ forge, url, results }: EnsuredForge, isDry: boolean): string {
  const words = {
    created: isDry ? "would be created" : "created",
    repaired: isDry ? "would be repaired" : "repaired",
    unchanged: "as it has to be",
    failed: "NOT DONE",
  };
  const rows = results.map(({ name, result, why }) => [`  ${name}`, words[result], plain(why.join("; "))]);
  return `${forge}: ${url}\n${rows.length > 0 ? table(rows) : "  no repository of this forge\n"}`;
}

function describeOthers(others: readonly string[]): string {
  return others.length === 0 ? "" : `at no configured forge:\n${others.map((one) => `  ${one}\n`).join("")}`;
}
