/** Output formats (`-o`): tables for people, JSON and YAML for programs. */
import { Option } from "commander";
import { stringify } from "yaml";
import { fit } from "./table.ts";

export type Format = "table" | "wide" | "json" | "yaml";

export function outputOption(): Option {
  return new Option("-o, --output <format>", "Output format")
    .choices(["table", "wide", "json", "yaml"])
    .default("table");
}

export function isForPeople(format: Format): boolean {
  return format === "table" || format === "wide";
}

/** JSON or YAML with times in RFC 3339 and without unknown values; `undefined` for formats for people. */
export function forPrograms(format: Format, items: readonly unknown[]): string | undefined {
  return format === "json" || format === "yaml" ? toData(format, items, withTimes) : undefined;
}

/** Formats a list. Lines of a table, except in `wide`, are cut to the columns of the terminal. */
export function listing<T>(
  format: Format,
  items: readonly T[],
  columns: number | undefined,
  toTable: (items: readonly T[], wide: boolean) => string,
): string {
  const wide = format === "wide";
  return forPrograms(format, items) ?? fit(toTable(items, wide), wide ? undefined : columns);
}

/** Formats any value as JSON or YAML. */
export function toData(format: "json" | "yaml", value: unknown, replacer?: typeof withTimes): string {
  const json = JSON.stringify(value, replacer, 2);
  return format === "json" ? `${json}\n` : stringify(JSON.parse(json), { lineWidth: 0 });
}

/** `-o` with formats for people, of which the first is the default, `json` and `yaml`. */
export function dataOption(forPeople: readonly [string, ...string[]] = ["text"]): Option {
  return new Option("-o, --output <format>", "Output format")
    .choices([...forPeople, "json", "yaml"])
    .default(forPeople[0]);
}

/** Converts times, which are numbers in fields named `at` or `…At`. */
export function withTimes(key: string, value: unknown): unknown {
  return typeof value === "number" && (key.endsWith("At") || key === "at") ? new Date(value).toISOString() : value;
}

/** `12s`, `5m`, `3h`, `41d`, like kubectl. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 2 * 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Abbreviates a commit to seven characters. */
export function short(commit: string | undefined): string {
  return commit?.slice(0, 7) ?? "–";
}

export function orDash(text: string | number | undefined): string {
  return text === undefined || text === "" ? "–" : String(text);
}
