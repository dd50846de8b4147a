/** `towline webhook ensure`: creates and repairs webhooks through the git hosts' APIs. */
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
import { parseRepoUrl, repoId } from "../model/repo-url.ts";
import { listAllDeployments } from "./list-deployments.ts";
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
configured secrets. An existing webhook with this address is repaired if needed: events, content type, disabled, no secret.
Webhooks with other addresses are not changed, and additional events are kept. If <url> ends with /webhooks/<forge>, only
this forge is selected. For a GitHub App it sets the App's own webhook and checks that the App is installed.

It uses the forge's configured login. If that login may not administer webhooks, pass another token with --token-file; it is
used for this call only. Git hosts do not reveal a webhook's secret: after changing the configured one, use --rotate.

Examples:
  towline webhook ensure --url https://towline.example.com --dry-run
  towline webhook ensure example/shop --url https://towline.example.com --token-file admin.token
  towline webhook ensure --url https://towline.example.com --forge gitea --rotate

Exit codes:
  0  All webhooks are correct; with --dry-run: would be, as far as that can be checked
  1  At least one is not: the output says why
  2  Invalid command line or configuration`;

type Flags = ClusterFlags & EnsureFlags;

export const defineWebhookEnsure: Define = (command, deps, onCode) => {
  withClusterFlags(command)
    .argument("[repos...]", "Repositories: owner/name or URL; default: those that KluctlDeployments follow")
    .requiredOption("--url <url>", "Address of the server for git hosts: https://towline.example.com")
    .option("--forge <id>", "Only webhooks of this forge")
    .option("--token-file <file>", "File with a token that may administer webhooks; -: stdin")
    .option("--rotate", "Set the secret of existing webhooks again")
    .option("--dry-run", "Show what would be done, without changing anything")
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
      `--url is the webhook address of forge ${named}, but --forge is ${flags.forge}; use one of them`,
    );
  }
  const forges = forgesOf(cluster.config, flags.forge ?? named);
  const { tokenFile } = flags;
  const token = tokenFile && (tokenFile === "-" ? await stdin() : readFile(tokenFile)).trim();
  if (token === "") throw new ConfigError(`--token-file: ${tokenFile} is empty`);
  if (token && forges.length > 1)
    throw new ConfigError("several forges are configured: use --forge to select the one that the token is for");

  const wanted = repos.length > 0 ? repos.map(parseRepo) : await followed(cluster, err);
  if (wanted.length === 0)
    throw new Error("no KluctlDeployment follows a git repository; pass repositories as arguments");
  const scrub = createScrubber([...secretValues(cluster.config), ...(token ? [token] : [])]);
  const found = await Promise.all(
    forges.map((forge) => ensureForge(forge, { wanted, flags, base, token, alone: forges.length === 1 })),
  );
  const known = new Set(found.flatMap(({ taken }) => taken));
  const others = wanted.filter((one) => !known.has(one)).map(textOf);
  const isBad = found.some(({ results }) => results.some(({ result }) => result === "failed"));
  // Repositories that the user did not name may be on hosts without a configured forge.
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

/** A repository by its identity, or by its name at the git host. */
type Wanted = { readonly repo: RepoId } | { readonly name: string };

function textOf(wanted: Wanted): string {
  return "repo" in wanted ? wanted.repo : wanted.name;
}

function parseRepo(text: string): Wanted {
  if (/^[\w.-]+(?:\/[\w.-]+)+$/.test(text)) return { name: text };
  const repo = parseRepoUrl(text) && repoId(text);
  if (repo === undefined) throw new ConfigError(`"${plain(text)}" is not a repository; use owner/name or a URL`);
  return { repo };
}

async function followed(cluster: ClusterConfig, err: (text: string) => void): Promise<readonly Wanted[]> {
  const { createKubeClient } = await import("../kube/client.ts"); // not for repositories that are named
  const client = createKubeClient(cluster.kubernetes);
  try {
    const found = await listAllDeployments(client, { ...cluster, err });
    const repos = found.map(({ deployment }) => deployment).filter(followsGit);
    return [...new Set(repos.map(({ repo }) => repo))].sort().map((repo) => ({ repo }));
  } finally {
    client.close();
  }
}

function forgesOf({ forges }: Config, id: string | undefined): readonly ForgeConfig[] {
  const ids = forges.map((forge) => forge.id).join(", ") || "none";
  const named = forges.filter((forge) => (id === undefined && forge.webhooks) || forge.id === id);
  if (named.some(({ webhooks }) => !webhooks))
    throw new ConfigError(`forge ${id} is configured with webhooks: false: it is polled, and sends none`);
  if (named.length > 0) return named;
  if (id !== undefined) throw new ConfigError(`no forge ${id} is configured; configured: ${ids}`);
  throw new ConfigError(
    "no git host (forge) is configured; pass the server's configuration file with --config, or set the same TOWLINE_… variables as for the server",
  );
}

interface EnsureOne {
  readonly wanted: readonly Wanted[];
  readonly flags: EnsureFlags;
  readonly base: string;
  readonly token: string | undefined;
  /** Whether this is the only forge, so that names without a host are unambiguous. */
  readonly alone: boolean;
}

interface EnsuredForge {
  readonly forge: string;
  readonly url: string;
  readonly results: readonly Ensured[];
  /** The repositories of this forge. */
  readonly taken: readonly Wanted[];
}

async function ensureForge(config: ForgeConfig, options: EnsureOne): Promise<EnsuredForge> {
  const { wanted, flags, base, token, alone } = options;
  const { id, kind, apiUrl, webUrl } = config;
  const url = new URL(`webhooks/${id}`, base).href;
  const log = createLogger({ level: "silent", format: "json" });
  const [secret] = config.webhookSecrets;
  if (secret === undefined) throw new ConfigError(`forge ${id} has no webhook secret; configure one`);
  if (!alone && wanted.some((one) => "name" in one)) {
    throw new ConfigError("several forges are configured: use --forge to select one, or pass the repositories as URLs");
  }
  const login: ForgeLogin | undefined = token ? { token } : loginOf(config);
  if (login === undefined) {
    const why = ["the forge has no login for its API; pass a token with --token-file"];
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
    unchanged: "unchanged",
    failed: "FAILED",
  };
  const rows = results.map(({ name, result, why }) => [`  ${name}`, words[result], plain(why.join("; "))]);
  return `${forge}: ${url}\n${rows.length > 0 ? table(rows) : "  no repository of this forge\n"}`;
}

function describeOthers(others: readonly string[]): string {
  return others.length === 0 ? "" : `not on a configured forge:\n${others.map((one) => `  ${one}\n`).join("")}`;
}
