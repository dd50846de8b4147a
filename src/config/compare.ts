/** What of a configuration is another one now. Pure. */
import type { Config, ForgeConfig } from "../config.ts";
import { Secret } from "./secret.ts";

export interface ConfigChange {
  /** Forges whose webhook secrets are others now. */
  readonly webhooks: readonly ForgeConfig[];
  /** Forges that have another login now; both had one. */
  readonly logins: readonly ForgeConfig[];
  /** Keys that are read at the start only. */
  readonly restart: readonly string[];
}

/** What of a forge can be exchanged while the server runs. */
const exchanged = new Set<keyof ForgeConfig>(["webhookSecrets", "token", "app"]);

export function compareConfigs(before: Config, after: Config): ConfigChange {
  const { forges: earlier, ...others } = before;
  const known = new Map(earlier.map((forge) => [forge.id, forge]));
  const there = new Set(after.forges.map(({ id }) => id));
  const pairs = after.forges.map((now) => ({ now, was: known.get(now.id) }));
  const gone = earlier.filter(({ id }) => !there.has(id)).map(({ id }) => id);
  return {
    webhooks: pairs.flatMap(({ was, now }) => (was && !same(was.webhookSecrets, now.webhookSecrets) ? [now] : [])),
    logins: pairs.flatMap(({ was, now }) =>
      was && !sameLogin(was, now) && hasLogin(was) && hasLogin(now) ? [now] : [],
    ),
    restart: [
      ...pairs
        .filter(({ was, now }) => was === undefined || needsRestart(was, now))
        .map(({ now }) => `forges.${now.id}`),
      ...gone.map((id) => `forges.${id}`),
      ...Object.entries(others).flatMap(([key, value]) => differing(key, value, after[key as keyof Config])),
    ],
  };
}

/** Equal for configurations that are the same, secrets included: for comparing only, never to be written anywhere. */
export function fingerprint(config: Config): string {
  return text(config);
}

function needsRestart(was: ForgeConfig, now: ForgeConfig): boolean {
  const rest = (forge: ForgeConfig) =>
    Object.entries(forge).filter(([key]) => !exchanged.has(key as keyof ForgeConfig));
  // What a login is for is only built where there is one, and a webhook without a secret is another thing.
  const [some, none] = [was.webhookSecrets, now.webhookSecrets].map((secrets) => secrets.length === 0);
  return !same(rest(was), rest(now)) || hasLogin(was) !== hasLogin(now) || some !== none;
}

function hasLogin({ token, app }: ForgeConfig): boolean {
  return token !== undefined || app !== undefined;
}

function sameLogin(one: ForgeConfig, other: ForgeConfig): boolean {
  return same([one.token, one.app], [other.token, other.app]);
}

/** `redis.url` rather than `redis`. */
function differing(key: string, was: unknown, now: unknown): string[] {
  if (same(was, now)) return [];
  const isSection = (value: unknown): value is object =>
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Secret);
  if (!isSection(was) || !isSection(now)) return [key];
  const keys = new Set([...Object.keys(was), ...Object.keys(now)]) as Set<never>;
  return [...keys].filter((name) => !same(was[name], now[name])).map((name) => `${key}.${String(name)}`);
}

function same(one: unknown, other: unknown): boolean {
  return text(one) === text(other);
}

/** JSON has no secrets: they mask themselves before a replacer sees them, unless it looks at their holder. */
function text(value: unknown): string {
  return (
    JSON.stringify(value, function reveal(this: Record<string, unknown>, key, plain: unknown) {
      const held = this[key];
      return held instanceof Secret ? { secret: held.reveal() } : plain;
    }) ?? "undefined"
  );
}
