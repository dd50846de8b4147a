/** Builds the Config from options, TOWLINE_* variables and the configuration file. The only reader of the environment. */
import type { ForgeKind } from "./model/forge.ts";
import type { NoticeEvent, NoticeKind, NoticeState, NotifierKind } from "./model/notification.ts";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import { readMemory } from "./machine/available-memory.ts";
import type { BindAddress } from "./config/bind-address.ts";
import { checkDocument } from "./config/checks.ts";
import { environmentSecrets } from "./config/environment-secrets.ts";
import { type ConfigSources, mergeSources, type MergedConfig, withOrigin } from "./config/merge.ts";
import { isBlock } from "./config/network.ts";
import { maskSecrets } from "./config/print.ts";
import { type Problem, toConfigError, toProblems } from "./config/problems.ts";
import {
  configSchema,
  type leaderElections,
  type logFormats,
  type logLevels,
  type pageRoles,
  type pullRequestLinks,
  type reportForms,
} from "./config/schema.ts";
import { Secret } from "./config/secret.ts";
import { readConfigFile } from "./config/file.ts";
import type { Target } from "./kit/host-rule.ts";

export { Secret } from "./config/secret.ts";

export type LogLevel = (typeof logLevels)[number];
export type LogFormat = (typeof logFormats)[number];

export type LeaderElection = (typeof leaderElections)[number];

export interface ForgeConfig {
  /** `/webhooks/<id>`. */
  readonly id: string;
  readonly kind: ForgeKind;
  /** Absent: the public service. */
  readonly apiUrl?: string | undefined;
  /** Absent: derived from `apiUrl`. */
  readonly webUrl?: string | undefined;
  /** Additional host names of its repositories. */
  readonly hosts: readonly string[];
  /** False: it is only polled. */
  readonly webhooks: boolean;
  /** Whether deployments are reported to the git host's environments. */
  readonly deployments: boolean;
  /** Any of them is accepted. Empty only with `insecureAllowUnsigned`, or without webhooks. */
  readonly webhookSecrets: readonly Secret[];
  readonly token?: Secret | undefined;
  /** GitHub App, instead of a token. */
  readonly app?: { readonly id: string; readonly privateKey: Secret } | undefined;
  /** How GitHub shows the state of a commit; the other hosts have statuses only. */
  readonly reportAs: (typeof reportForms)[number];
  readonly insecureAllowUnsigned: boolean;
}

/** A Unix socket. */
interface SocketPath {
  readonly path: string;
}

/** Disabled if there is no address. */
interface Listening {
  readonly bindAddress?: BindAddress | undefined;
}

export type PageRole = (typeof pageRoles)[number];
/** What opens the page of a pull request from its comment. */
type PullRequestLinkMode = (typeof pullRequestLinks)[number];

/** At least one of `token`, `proxy` and `oidc` is set. */
export interface PageConfig {
  readonly host: string;
  readonly port: number;
  /** Without a slash at its end. */
  readonly publicUrl?: string | undefined;
  readonly pullRequestLinks: PullRequestLinkMode;
  readonly token?: Secret | undefined;
  readonly tokenRole: PageRole;
  /** Authenticating proxy, which sets headers. */
  readonly proxy?:
    | {
        readonly header: string;
        readonly groupsHeader?: string | undefined;
        readonly addresses: readonly string[];
        /** Secret that the proxy sends in a header. */
        readonly secret?: { readonly header: string; readonly value: Secret } | undefined;
      }
    | undefined;
  readonly oidc?: OidcConfig | undefined;
  /** `*`: every authenticated user. */
  readonly viewerGroups: readonly string[];
  readonly operatorGroups: readonly string[];
  /** `group=namespace`, where `*` is a wildcard. Empty: all namespaces are visible. */
  readonly namespacesByGroup: readonly string[];
  /** Identity for requests to the cluster on behalf of users. */
  readonly actAs: "caller" | "server";
  readonly userPrefix?: string | undefined;
  readonly groupPrefix?: string | undefined;
}

export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly redirectUrl: string;
  readonly scopes: readonly string[];
  readonly nameClaim: string;
  readonly groupsClaim: string;
  readonly sessionMs: number;
}

/** Where notifications go. */
export interface TargetConfig {
  readonly id: string;
  readonly kind: NotifierKind;
  /** Always set, except for a Slack bot. */
  readonly url?: Secret | undefined;
  readonly token?: Secret | undefined;
  readonly signingKeys: readonly Secret[];
  readonly channel?: string | undefined;
  /** Which channels annotations may name; absent: the kind's default. */
  readonly channels?: readonly string[] | undefined;
  readonly from?: string | undefined;
  readonly to: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly words: readonly OwnWords[];
  readonly perHour: number;
  readonly quietHours?: QuietHours | undefined;
}

/** Other words for the messages of these kinds and states; empty lists: all. Texts with names such as `{{title}}`. */
export interface OwnWords {
  readonly kinds: readonly NoticeKind[];
  readonly states: readonly NoticeState[];
  readonly title?: string | undefined;
  readonly note?: string | undefined;
}

/** `from` and `to`: `22:00`. */
export interface QuietHours {
  readonly from: string;
  readonly to: string;
  readonly timeZone: string;
}

/** Empty lists: all. */
export interface RouteConfig {
  readonly target: string;
  readonly channel?: string | undefined;
  readonly namespaces: readonly string[];
  readonly names: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly repositories: readonly string[];
  readonly events?: readonly NoticeEvent[] | undefined;
}

export interface NotificationsConfig {
  readonly targets: readonly TargetConfig[];
  readonly routes: readonly RouteConfig[];
}

/** Deliveries that are kept for `towline replay`. */
export interface RecordingConfig {
  readonly enabled: boolean;
  readonly days: number;
  readonly maxDeliveries: number;
  readonly maxSizeBytes: number;
  /** The first one encrypts. Not empty if recording is enabled. */
  readonly keys: readonly Secret[];
}

/** The keys are described in config/schema.ts. */
export interface Config {
  readonly forges: readonly ForgeConfig[];
  readonly webhooks: {
    readonly host: string;
    readonly port: number;
    readonly maxBodyBytes: number;
    /** Proxies whose `X-Forwarded-For` is used. */
    readonly proxyAddresses: readonly string[];
  };
  readonly admin: { readonly enabled: boolean; readonly host: string; readonly port: number };
  readonly metrics: Listening;
  readonly probes: Listening;
  /** Absent: the page is disabled. */
  readonly page?: PageConfig | undefined;
  readonly sourceOverride: Listening;
  readonly log: { readonly level: LogLevel; readonly format: LogFormat };
  readonly audit: { readonly file?: string | undefined };
  readonly dataDir: string;
  /** Without `url`: a private Redis. The URL holds the password. */
  readonly redis: {
    readonly url?: Secret | undefined;
    /** Certificate authorities. */
    readonly caFile?: string | undefined;
    /** `host:port`; the URL's host is then the name of the master. */
    readonly sentinels: readonly string[];
    readonly sentinelPassword?: Secret | undefined;
    readonly prefix: string;
    readonly server?: string | undefined;
  };
  readonly kubernetes: {
    readonly kubeconfig?: string | undefined;
    readonly context?: string | undefined;
    /** Empty: all. */
    readonly namespaces: readonly string[];
    readonly requestsPerSecond: number;
    readonly allowUnsafeKubeconfigs: boolean;
    /** Identity that reads the Secrets of a deployment: the server, or the deployment's service account. */
    readonly readSecretsAs: "server" | "account";
  };
  readonly kluctl: {
    readonly path?: string | undefined;
    readonly cacheDir?: string | undefined;
    readonly unpackedDir?: string | undefined;
    readonly systemPython: boolean;
    readonly warm: boolean;
  };
  readonly concurrency: number;
  readonly sweep: {
    readonly intervalMs: number;
    /** Whether each repository's interval depends on whether its webhooks arrive. */
    readonly adaptive: boolean;
    /** Whether what cannot find anything new is left out. */
    readonly skipping: boolean;
    readonly fullIntervalMs: number;
    readonly auditSkips: number;
  };
  readonly lease: { readonly durationMs: number };
  readonly results: {
    readonly write: boolean;
    readonly namespace: string;
    readonly keepCommands: number;
    readonly keepValidates: number;
  };
  readonly preview: {
    readonly enabled: boolean;
    readonly isolation: "required" | "auto" | "off";
    readonly forks: "off" | "isolated";
    readonly forksInMergeQueue: boolean;
    readonly serviceAccountName?: string | undefined;
    readonly hosts: readonly string[];
    readonly concurrency: number;
    readonly intervalMs: number;
    readonly runner: {
      /** Absent: the server renders previews itself. */
      readonly address?: Target | SocketPath | undefined;
      readonly token?: Secret | undefined;
      readonly bindAddress: BindAddress | SocketPath;
    };
  };
  readonly prune: { readonly confirm: boolean; readonly confirmPercent: number; readonly confirmFromObjects: number };
  readonly notifications: NotificationsConfig;
  readonly recording: RecordingConfig;
  readonly statusName: string;
  readonly clusterName?: string | undefined;
  readonly git: { readonly timeoutMs: number };
  readonly shutdown: { readonly drainMs: number };
  readonly controllerName: string;
  readonly controllerNamespace: string;
  readonly leaderElection: LeaderElection;
  readonly defaultServiceAccount?: string | undefined;
  readonly dryRun: boolean;
}

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

/** Memory of the server and of one kluctl. */
const [ownBytes, kluctlBytes] = [300 * 1024 ** 2, 200 * 1024 ** 2];

type ParsedPage = z.output<typeof configSchema>["page"];

function toConfig(parsed: z.output<typeof configSchema>, env: ConfigSources["env"]): Config {
  const { forges, webhooks, redis, kluctl, sweep, lease, preview, git, shutdown, dataDir, concurrency, page, ...rest } =
    parsed;
  const { recording, ...same } = rest;
  const cores = availableParallelism();
  const fitting = Math.floor((readMemory().limitBytes - ownBytes) / kluctlBytes);
  return {
    ...same,
    forges: forges.map(toForge),
    webhooks: {
      host: webhooks.host,
      port: webhooks.port,
      maxBodyBytes: webhooks.maxBody,
      proxyAddresses: webhooks.proxyAddresses,
    },
    page: toPage(page),
    dataDir: dataDir ?? defaultDataDir(env),
    redis: toRedis(redis),
    kluctl: {
      path: kluctl.path,
      cacheDir: kluctl.cacheDir ?? (env["KLUCTL_CACHE_DIR"] || undefined),
      unpackedDir: kluctl.unpackedDir,
      systemPython: kluctl.systemPython,
      warm: kluctl.warm === "on" && !kluctl.systemPython,
    },
    concurrency: concurrency ?? Math.max(1, Math.min(64, Math.max(2, cores), fitting)),
    sweep: {
      intervalMs: sweep.interval,
      adaptive: sweep.adaptive,
      skipping: sweep.skipping,
      fullIntervalMs: sweep.fullInterval,
      auditSkips: sweep.auditSkips,
    },
    lease: { durationMs: lease.duration },
    preview: {
      enabled: preview.enabled,
      isolation: preview.isolation,
      forks: preview.forks,
      forksInMergeQueue: preview.forksInMergeQueue,
      serviceAccountName: preview.serviceAccountName,
      hosts: preview.hosts,
      concurrency: preview.concurrency ?? Math.min(64, Math.max(2, Math.floor(cores / 2))),
      intervalMs: preview.interval,
      runner: toRunner(preview.runner),
    },
    recording: {
      enabled: recording.enabled,
      days: recording.days,
      maxDeliveries: recording.maxDeliveries,
      maxSizeBytes: recording.maxSize,
      keys: recording.keys,
    },
    git: { timeoutMs: git.timeout },
    shutdown: { drainMs: shutdown.drain },
  };
}

function toPage({
  proxyHeader,
  proxyGroupsHeader,
  proxyAddresses,
  oidc: parsedOidc,
  ...page
}: ParsedPage): Config["page"] {
  const { proxySecret, proxySecretHeader } = page;
  const oidc = toOidc(parsedOidc);
  if (page.token === undefined && proxyHeader === undefined && oidc === undefined) return undefined;
  const {
    host,
    port,
    token,
    tokenRole,
    viewerGroups,
    operatorGroups,
    namespacesByGroup,
    actAs,
    userPrefix,
    groupPrefix,
  } = page;
  const proxy =
    proxyHeader === undefined
      ? undefined
      : {
          header: proxyHeader,
          groupsHeader: proxyGroupsHeader,
          addresses: proxyAddresses,
          ...(proxySecret && { secret: { header: proxySecretHeader, value: proxySecret } }),
        };
  return {
    ...{ host, port, token, tokenRole, proxy, oidc, operatorGroups, namespacesByGroup, actAs, userPrefix, groupPrefix },
    publicUrl: (page.publicUrl ?? (oidc && new URL("/", oidc.redirectUrl).href))?.replace(/\/+$/, ""),
    // A token is shared by few; with logins of their own, the readers of a comment have one.
    pullRequestLinks: page.pullRequestLinks ?? (proxy || oidc ? "login" : "signed"),
    // Without groups, an authenticating proxy decides who has access.
    viewerGroups: viewerGroups.length + operatorGroups.length === 0 ? ["*"] : viewerGroups,
  };
}

function toRunner({ address, token, bindAddress }: z.output<typeof configSchema>["preview"]["runner"]) {
  return { address, token, bindAddress };
}

/** `undefined` unless complete; `checkDocument` reports missing keys. */
function toOidc({ issuer, clientId, clientSecret, redirectUrl, session, ...rest }: ParsedPage["oidc"]) {
  if (!issuer || !clientId || !clientSecret || !redirectUrl) return undefined;
  const { scopes, nameClaim, groupsClaim } = rest;
  return { issuer, clientId, clientSecret, redirectUrl, scopes, nameClaim, groupsClaim, sessionMs: session };
}

function toRedis(redis: z.output<typeof configSchema>["redis"]): Config["redis"] {
  const { url, password, caFile, sentinels, sentinelPassword, prefix, server } = redis;
  return { url: url && withPassword(url, password), caFile, sentinels, sentinelPassword, prefix, server };
}

function toForge(forge: z.output<typeof configSchema>["forges"][number]): ForgeConfig {
  const { id, kind, apiUrl, webUrl, hosts, webhooks, deployments, webhookSecrets, token, appId, appPrivateKey } = forge;
  const app = appId !== undefined && appPrivateKey !== undefined ? { id: appId, privateKey: appPrivateKey } : undefined;
  const { reportAs, insecureAllowUnsigned } = forge;
  const common = { id, kind, apiUrl, webUrl, hosts, webhooks, deployments, webhookSecrets, token, app };
  return { ...common, reportAs, insecureAllowUnsigned };
}

export function defaultDataDir(env: ConfigSources["env"]): string {
  if (env["XDG_STATE_HOME"]) return join(env["XDG_STATE_HOME"], "towline");
  return env["HOME"] ? join(env["HOME"], ".local/state/towline") : "/var/lib/towline";
}

function withPassword(url: Secret, password: Secret | undefined): Secret {
  if (password === undefined) return url;
  const whole = new URL(url.reveal());
  whole.password = encodeURIComponent(password.reveal());
  return new Secret(whole.href);
}
