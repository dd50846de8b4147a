/** `-o`: for people, or for programs. */
import { Option } from "commander";
import { stringify } from "yaml";
import { fit } from "./table.ts";

export type Format = "table" | "wide" | "json" | "yaml";

export function outputOption(): Option {
  return new Option("-o, --output <format>", "how to print it")
    .choices(["table", "wide", "json", "yaml"])
    .default("table");
}

export function isForPeople(format: Format): boolean {
  return format === "table" || format === "wide";
}

/** `undefined` where people read. Times are RFC 3339 there, and what is not known is left out. */
export function forPrograms(format: Format, items: readonly unknown[]): string | undefined {
  return format === "json" || format === "yaml" ? toData(format, items, withTimes) : undefined;
}

/** A list, for whoever it is. What people do not read in full on a terminal of so many columns is cut, but for `wide`. */
export function listing<T>(
  format: Format,
  items: readonly T[],
  columns: number | undefined,
  toTable: (items: readonly T[], wide: boolean) => string,
): string {
  const wide = format === "wide";
  return forPrograms(format, items) ?? fit(toTable(items, wide), wide ? undefined : columns);
}

/** What is not a list: as it is. */
export function toData(format: "json" | "yaml", value: unknown, replacer?: typeof withTimes): string {
  const json = JSON.stringify(value, replacer, 2);
  return format === "json" ? `${json}\n` : stringify(JSON.parse(json), { lineWidth: 0 });
}

/** `-o` of what is printed as text; or as `markdown`, say. */
export function dataOption(forPeople = "text"): Option {
  return new Option("-o, --output <format>", "how to print it").choices([forPeople, "json", "yaml"]).default(forPeople);
}

/** Our names of times end in `At`, or are `at`. */
function withTimes(key: string, value: unknown): unknown {
  return typeof value === "number" && (key.endsWith("At") || key === "at") ? new Date(value).toISOString() : value;
}

/** `12s`, `5m`, `3h`, `41d`: as kubectl has it. */
export function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 2 * 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** A commit as people write it. */
export function short(commit: string | undefined): string {
  return commit?.slice(0, 7) ?? "–";
}

export function orDash(text: string | number | undefined): string {
  return text === undefined || text === "" ? "–" : String(text);
}
