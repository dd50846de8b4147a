/** The keys that take effect while the server runs: values that are read when they are needed, and secrets. */
import type { Config, ForgeConfig, PageConfig } from "../config.ts";
import type { Secret } from "./secret.ts";

type LiveKeys = {
  readonly [Name in keyof Config]?: true | readonly Extract<keyof NonNullable<Config[Name]>, string>[];
};

const liveKeys: LiveKeys = {
  log: ["level"],
  kubernetes: ["requestsPerSecond", "allowUnsafeKubeconfigs", "readSecretsAs"],
  concurrency: true,
  sweep: ["intervalMs", "adaptive", "fullIntervalMs", "auditSkips"],
  results: ["keepCommands", "keepValidates"],
  preview: ["forksInMergeQueue", "serviceAccountName", "hosts", "concurrency", "intervalMs"],
  prune: true,
  notifications: true,
  recording: true,
  clusterName: true,
  git: true,
  shutdown: true,
  defaultServiceAccount: true,
  dryRun: true,
};

/** Keys with secrets, as in the file; those of a forge without its prefix. */
const secretKeys =
  /^(?:redis\.(?:password|sentinelPassword)|page\.(?:token|proxySecret|oidc\.clientSecret)|webhookSecrets?|token|appPrivateKey)(?:Files?)?$/;

/** `current` with the values of `next` for keys that take effect while the server runs. */
export function takeLive(current: Config, next: Config): Config {
  const taken = { ...current } as Record<string, unknown>;
  for (const [name, keys] of Object.entries(liveKeys)) {
    const [was, becomes] = [current, next].map((config) => config[name as keyof Config]);
    taken[name] = keys === true ? becomes : { ...(was as object), ...pick(becomes as Section, keys) };
  }
  const { redis, forges, page } = current;
  return {
    ...(taken as unknown as Config),
    redis: {
      ...redis,
      url: takeLogin(redis.url, next.redis.url),
      sentinelPassword: next.redis.sentinelPassword,
    },
    forges: forges.map((forge) => takeForgeSecrets(forge, next.forges.find(({ id }) => id === forge.id) ?? forge)),
    page: page && takePageSecrets(page, next.page ?? page),
  };
}

/** Whether a key of the file takes effect while the server runs. `login`: only the credentials in it. */
export function isLive(path: string): boolean | "login" {
  const [name = "", key = ""] = path.split(".");
  if (path === "redis.url" || path === "redis.urlFile") return "login";
  const keys = liveKeys[name as keyof Config] as true | readonly string[] | undefined;
  return keys === true || secretKeys.test(path) || keys?.some((one) => toWritten(one) === key) === true;
}

/** Maps a name in `Config`, which has units, to the key in the file. */
export function toWritten(key: string): string {
  return key.replace(/(?:Ms|Bytes)$/, "");
}

function takeForgeSecrets(was: ForgeConfig, next: ForgeConfig): ForgeConfig {
  const login = ({ kind, apiUrl, token, app }: ForgeConfig) => ({ kind, apiUrl, token, app });
  const isSigned = was.webhookSecrets.length > 0 && next.webhookSecrets.length > 0;
  return { ...was, ...rotated(login(was), login(next)), ...(isSigned && { webhookSecrets: next.webhookSecrets }) };
}

function takePageSecrets(was: PageConfig, next: PageConfig): PageConfig {
  return { ...was, token: next.token, proxy: rotated(was.proxy, next.proxy), oidc: rotated(was.oidc, next.oidc) };
}

/** `next` if only secrets differ, which JSON masks: a new secret must not be sent to the address that it replaces. */
function rotated<T>(was: T, next: T): T {
  return JSON.stringify(was) === JSON.stringify(next) ? next : was;
}

/** Takes new credentials only if the address of Redis is unchanged. */
function takeLogin(was: Secret | undefined, next: Secret | undefined): Secret | undefined {
  return was && next && addressOf(was) === addressOf(next) ? next : was;
}

function addressOf(url: Secret): string {
  const address = new URL(url.reveal());
  [address.username, address.password] = ["", ""];
  return address.href;
}

type Section = Readonly<Record<string, unknown>>;

function pick(section: Section, keys: readonly string[]): Section {
  return Object.fromEntries(keys.map((key) => [key, section[key]]));
}
