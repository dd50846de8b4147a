/** Formats problems of a configuration. Pure; values of secrets are never included. */
import type { z } from "zod";
import { ConfigError } from "../errors.ts";
import { findNearest } from "../kit/nearest.ts";
import { routeSchema, targetSchema } from "./notifications-schema.ts";
import { forgeSchema } from "./forge-schema.ts";
import { configSchema } from "./schema.ts";

export interface Problem {
  readonly where: string;
  readonly what: string;
}

/** `forges[0].token`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, "");
}

export function toProblems(issues: readonly z.core.$ZodIssue[]): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        where: pathText([...issue.path, key]),
        what: `is not a known key${didYouMean(findNearest(key, knownKeys(issue.path)))}`,
      }));
    }
    return [{ where: pathText(issue.path), what: explain(issue) }];
  });
}

export function didYouMean(word: string | undefined): string {
  return word === undefined ? "" : `; did you mean "${word}"?`;
}

/** One problem per line, in aligned columns. */
export function toConfigError(problems: readonly Problem[]): ConfigError {
  const width = Math.min(48, Math.max(...problems.map(({ where }) => where.length)));
  const lines = problems.map(({ where, what }) => `  ${where.padEnd(width)}  ${what}`);
  const count = problems.length === 1 ? "1 problem" : `${problems.length} problems`;
  return new ConfigError([`configuration is not valid (${count})`, ...lines].join("\n"));
}

/** The schema has its own messages with advice; zod's remaining messages are about whole sections. */
function explain(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type" && issue.expected === "object") return "must be a mapping of keys to values";
  if ("input" in issue && issue.input === undefined) return `is missing: it ${issue.message}`;
  return issue.message;
}

function knownKeys(path: readonly PropertyKey[]): string[] {
  if (path[0] === "forges") return Object.keys(forgeSchema.shape);
  if (path[0] === "notifications" && path.length > 1)
    return Object.keys((path[1] === "targets" ? targetSchema : routeSchema).shape);
  let shape: Record<string, unknown> = configSchema.shape;
  for (const key of path) {
    const section = shape[String(key)] as { unwrap?(): { shape: Record<string, unknown> } } | undefined;
    shape = section?.unwrap?.().shape ?? {};
  }
  return Object.keys(shape);
}
