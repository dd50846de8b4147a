/** Keys that take effect at start only, because they open a resource or must match other servers. */
import type { Config } from "../config.ts";
import type { Secret } from "./secret.ts";

type Fixed = {
  readonly [Name in keyof Config]?: true | readonly Extract<keyof NonNullable<Config[Name]>, string>[];
};

const fixed: Fixed = {
  webhooks: ["host", "port"],
  admin: ["enabled", "host", "port"],
  metrics: ["bindAddress"],
  probes: ["bindAddress"],
  ui: ["host", "port"],
  sourceOverride: ["bindAddress"],
  log: ["format"],
  dataDir: true,
  redis: ["caFile", "sentinels", "prefix", "server"],
  kubernetes: ["kubeconfig", "context", "namespaces"],
  lease: ["durationMs"],
  results: ["namespace"],
  sweep: ["skipping"],
  preview: ["isolation", "runner"],
  controllerName: true,
  controllerNamespace: true,
  leaderElection: true,
};

/** `next` with the values of `current` for keys that take effect at start only. */
export function keepFixed(current: Config, next: Config): Config {
  const kept = { ...next } as Record<string, unknown>;
  for (const [name, keys] of Object.entries(fixed)) {
    const was = current[name as keyof Config];
    const becomes = next[name as keyof Config];
    if (keys === true) kept[name] = was;
    // A section that was added or removed has no values to keep.
    else if (isSection(was) && isSection(becomes)) kept[name] = { ...becomes, ...pick(was, keys) };
  }
  const redis = kept["redis"] as Config["redis"];
  return { ...(kept as unknown as Config), redis: { ...redis, url: keepAddress(current.redis.url, next.redis.url) } };
}

/** Whether a key of the file takes effect at start only. `login`: except for the credentials in it. */
export function isFixed(path: string): boolean | "login" {
  const [name = "", key = ""] = path.split(".");
  if (path === "redis.url" || path === "redis.urlFile") return "login";
  const keys = fixed[name as keyof Config] as true | readonly string[] | undefined;
  return keys === true || keys?.some((one) => toWritten(one) === key) === true;
}

/** Maps a name in `Config`, which has units, to the key in the file. */
export function toWritten(key: string): string {
  return key.replace(/(?:Ms|Bytes)$/, "");
}

/** Takes new credentials only if the address of Redis is unchanged. */
function keepAddress(was: Secret | undefined, next: Secret | undefined): Secret | undefined {
  return was && next && addressOf(was) === addressOf(next) ? next : was;
}

function addressOf(url: Secret): string {
  const address = new URL(url.reveal());
  [address.username, address.password] = ["", ""];
  return address.href;
}

function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function pick(section: Readonly<Record<string, unknown>>, keys: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keys.map((key) => [key, section[key]]));
}
