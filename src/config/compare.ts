/** Differences between two configurations. Pure. */
import type { Config, ForgeConfig } from "../config.ts";
import { toWritten } from "./live-keys.ts";
import { Secret } from "./secret.ts";

/** Names of changed keys: `redis.url`, `forges.github.token`; `forges.github` for a forge that was added or removed. */
export function changedKeys(before: Config, after: Config): string[] {
  const { forges: earlier, ...others } = before;
  const names = new Set([...Object.keys(others), ...Object.keys(after)]);
  names.delete("forges");
  return [
    ...changedForges(earlier, after.forges),
    ...[...names].flatMap((name) => differing(name, before[name as keyof Config], after[name as keyof Config])),
  ];
}

/** The forges of `after` that are new or changed. */
export function changedForgeConfigs(before: readonly ForgeConfig[], after: readonly ForgeConfig[]): ForgeConfig[] {
  return after.filter(
    (forge) =>
      !same(
        forge,
        before.find(({ id }) => id === forge.id),
      ),
  );
}

export function same(one: unknown, other: unknown): boolean {
  return fingerprint(one) === fingerprint(other);
}

/**
 * Equal for equal configurations, including secrets: for comparison only, must never be written anywhere. The replacer reads
 * secrets from their holder, because `toJSON` masks them before the replacer sees the value.
 */
export function fingerprint(value: unknown): string {
  return (
    JSON.stringify(value, function reveal(this: Record<string, unknown>, key, plain: unknown) {
      const held = this[key];
      return held instanceof Secret ? { secret: held.reveal() } : plain;
    }) ?? "undefined"
  );
}

function changedForges(before: readonly ForgeConfig[], after: readonly ForgeConfig[]): string[] {
  const ids = new Set([...before, ...after].map(({ id }) => id));
  return [...ids].flatMap((id) => {
    const [was, now] = [before, after].map((forges) => forges.find((forge) => forge.id === id));
    return differing(`forges.${id}`, was, now);
  });
}

/** `redis.url` rather than `redis`. */
function differing(key: string, was: unknown, now: unknown): string[] {
  if (same(was, now)) return [];
  const isSection = (value: unknown): value is object =>
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Secret);
  if (!isSection(was) || !isSection(now)) return [key];
  const keys = new Set([...Object.keys(was), ...Object.keys(now)]) as Set<never>;
  return [...keys].filter((name) => !same(was[name], now[name])).map((name) => `${key}.${toWritten(name)}`);
}
