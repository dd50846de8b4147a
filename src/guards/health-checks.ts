/** Parses a deployment's health checks from its annotations. Pure. */
import { parse } from "yaml";
import { z } from "zod";
import { whyNotCel } from "../kit/cel.ts";
import { parseDuration } from "../kit/duration.ts";
import { annotation, type Deployment, type HealthCheck } from "../model.ts";

export interface HealthChecks {
  readonly checks: readonly HealthCheck[];
  /** How long the objects may take after a deploy, in milliseconds. */
  readonly timeoutMs: number;
}

export type ParsedHealthChecks = HealthChecks | { readonly problem: string };

/** Limits, because every object is read again each time, and everything is parsed in the server's main thread. */
const mostChecks = 50;
const longestText = 50_000;
/** The same as that of Flux and of kluctl's own waits. */
const defaultTimeoutMs = 5 * 60_000;
const longestTimeoutMs = 24 * 3_600_000;

const text = z
  .string({ error: ({ input }) => (input === undefined ? "is missing" : "is not a text") })
  .min(1, "is empty")
  .max(2_000, "is too long");
const name = text
  .max(253, "is longer than 253 characters")
  .regex(/^[a-z0-9A-Z]([-a-z0-9A-Z.:_]*[a-z0-9A-Z])?$/, "is not the name of an object");
const word = /^[A-Za-z][A-Za-z0-9]*$/;
const apiVersion = /^(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?\/)?[a-z0-9]+$/;
const expression = text.superRefine((value, context) => {
  const why = whyNotCel(value);
  if (why !== undefined) context.addIssue({ code: "custom", message: `is not a CEL expression: ${why}` });
});

const Check = z
  .strictObject({
    apiVersion: text.regex(apiVersion, 'is not an API version, e.g. "v1" or "apps/v1"'),
    kind: text.regex(word, 'is not a kind, e.g. "Deployment"'),
    namespace: name.optional(),
    name: name.optional(),
    current: expression.optional(),
    inProgress: expression.optional(),
    failed: expression.optional(),
  })
  .superRefine(({ current, inProgress, failed }, context) => {
    const needsCurrent = current === undefined && (inProgress !== undefined || failed !== undefined);
    const message = "is missing: with `inProgress` or `failed`, say when the object is healthy";
    if (needsCurrent) context.addIssue({ code: "custom", path: ["current"], message });
  });

/** `undefined` if the deployment has no health checks. A problem names the entry, the field, and what to do. */
export function healthChecksOf({
  annotations,
  spec,
}: Pick<Deployment, "annotations" | "spec">): ParsedHealthChecks | undefined {
  const written = annotations[annotation.healthChecks];
  if (written === undefined) return undefined;
  const parsed = parseChecks(written);
  if ("problem" in parsed) return { problem: `annotation ${annotation.healthChecks}: ${parsed.problem}` };
  const timeout = timeoutOf(annotations[annotation.healthTimeout], spec.timeoutMs);
  return typeof timeout === "string"
    ? { problem: `annotation ${annotation.healthTimeout}: ${timeout}` }
    : { ...parsed, timeoutMs: timeout };
}

function parseChecks(written: string): { readonly checks: readonly HealthCheck[] } | { readonly problem: string } {
  if (written.length > longestText) return { problem: `it has more than ${longestText} characters; use fewer entries` };
  let entries: unknown;
  try {
    entries = parse(written, { maxAliasCount: 0, logLevel: "error" });
  } catch {
    return { problem: "it is not YAML; write a list of objects with `apiVersion`, `kind` and `name`" };
  }
  if (!Array.isArray(entries))
    return { problem: "it is not a list; write each object as an entry that starts with `- `" };
  if (entries.length > mostChecks)
    return { problem: `it has more than ${mostChecks} entries; check a whole kind in one` };
  const checks: HealthCheck[] = [];
  for (const [i, entry] of entries.entries()) {
    const { data, error } = Check.safeParse(entry);
    if (data === undefined) return { problem: `entry ${i + 1}${describe(entry)}: ${firstProblem(error)}` };
    checks.push(data);
  }
  return { checks };
}

function firstProblem(error: z.ZodError | undefined): string {
  const issue = error?.issues[0];
  if (issue?.code === "unrecognized_keys") {
    const known = Object.keys(Check.shape).join(", ");
    return `${issue.keys.map((key) => quote(key)).join(", ")} is not a known field; use ${known}`;
  }
  const field = issue?.path.join(".") ?? "";
  if (field === "") return "it is not an object with `apiVersion`, `kind` and `name`";
  return `${field} ${issue?.message ?? ""}`;
}

/** Milliseconds, or what is wrong with the text. */
function timeoutOf(written: string | undefined, ofSpec: number | undefined): number | string {
  if (written === undefined) return ofSpec ?? defaultTimeoutMs;
  const ms = parseDuration(written.trim());
  if (ms === undefined || ms <= 0) return `${quote(written)} is not a duration; use 90s, 5m or 1h30m`;
  return ms > longestTimeoutMs ? `${quote(written)} is longer than 24h` : ms;
}

function describe(entry: unknown): string {
  if (typeof entry !== "object" || entry === null) return "";
  const { kind, name } = entry as { readonly kind?: unknown; readonly name?: unknown };
  const words = [kind, name].filter((part) => typeof part === "string").join(" ");
  return words === "" ? "" : ` (${words.length <= 80 ? words : `${words.slice(0, 80)}…`})`;
}

function quote(value: string): string {
  return JSON.stringify(value.length <= 80 ? value : `${value.slice(0, 80)}…`);
}
