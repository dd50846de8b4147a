/** The configuration as the server uses it: parsed, complete: defaults are filled in, and times are in milliseconds. */
import type { Target } from "../kit/host-rule.ts";
import type { ForgeKind } from "../model/forge.ts";
import type { NoticeEvent, NoticeKind, NoticeState, NotifierKind } from "../model/notification.ts";
import type { BindAddress } from "./bind-address.ts";
import type { reportForms } from "./forge-schema.ts";
import type { pageRoles, pullRequestLinks } from "./page-schema.ts";
import type { leaderElections, logFormats, logLevels } from "./schema.ts";
import type { Secret } from "./secret.ts";

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

/** What the server does beside Flux's controllers, for Flux's own resources. */
export interface FluxConfig {
  /** Makes Flux fetch when a push or the sweep finds a new commit. */
  readonly trigger: boolean;
  /** Reports what Flux applies as commit statuses. */
  readonly statuses: boolean;
  /** Previews what pull requests would change in what Flux applies. */
  readonly previews: boolean;
  /** The program that renders Kustomizations. */
  readonly renderer?: string | undefined;
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

/** The keys are described in schema.ts. */
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
  readonly flux: FluxConfig;
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
