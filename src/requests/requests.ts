/** Manual requests: kluctl's request annotations and the status fields with their results. Pure. */
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import {
  type Deployment,
  type MalformedDeployment,
  type ManualCommand,
  type ManualKind,
  type ManualRequest,
  type ManualResult,
  manualCommands,
  manualKinds,
  manualResultField,
  requestAnnotation,
} from "../model.ts";
import { loopTimeoutMs } from "../reconcile/decide.ts";
import { timeOf } from "../kit/time.ts";

type Entry = Deployment | MalformedDeployment;

/** A request that has not been answered yet. */
export interface PendingRequest<Kind extends ManualKind = ManualKind> {
  readonly kind: Kind;
  /** The annotation's value; `undefined` if it was already taken by a reconciliation that did not finish. */
  readonly annotation: string | undefined;
  readonly request: ManualRequest;
  /** Why the request is rejected, if it is. */
  readonly problem?: string | undefined;
}

/** The command to run next. A reconcile request is not a command: it is answered by the reconciliation that follows. */
export function nextCommand(deployment: Entry): PendingRequest<ManualCommand> | undefined {
  return manualCommands.map((kind) => findRequest(deployment, kind)).find((pending) => pending !== undefined);
}

/** An annotation takes precedence over an interrupted request: its result replaces the other's. */
export function findRequest<Kind extends ManualKind>(deployment: Entry, kind: Kind): PendingRequest<Kind> | undefined {
  const annotation = annotationOf(deployment, kind);
  if (annotation !== undefined) return { kind, annotation, ...parseRequest(annotation) };
  const result = unfinished(deployment, kind);
  return result && { kind, annotation, request: result.request, problem: notDoneAgain(kind, result.request) };
}

/** Whether a request has not been answered yet, according to the resource. */
export function isAsked(deployment: Entry): boolean {
  return isAnnotated(deployment) || hasUnfinished(deployment);
}

/** Whether there is a request that no worker has taken yet. */
export function isAnnotated(deployment: Entry): boolean {
  return manualKinds.some((kind) => annotationOf(deployment, kind) !== undefined);
}

/**
 * Whether a request was taken and has no result yet. Only the holder of the lease can conclude that no worker is
 * processing it.
 */
function hasUnfinished(deployment: Entry): boolean {
  return manualKinds.some((kind) => unfinished(deployment, kind) !== undefined);
}

/** Whether there is a request that was not there before. */
export function asksAnew(deployment: Entry, previous: Entry | undefined): boolean {
  return manualKinds.some((kind) => {
    const asked = annotationOf(deployment, kind);
    return asked !== undefined && (previous === undefined || asked !== annotationOf(previous, kind));
  });
}

/** When a taken request can no longer be in progress, in epoch milliseconds; `undefined` if no request was taken. */
export function givenUpAt(deployment: Deployment): number | undefined {
  const begun = manualKinds.flatMap((kind) => unfinished(deployment, kind)?.startTime ?? []);
  if (begun.length === 0) return undefined;
  return Math.min(...begun.map(timeOf)) + 2 * loopTimeoutMs(deployment.spec);
}

function annotationOf({ annotations }: Entry, kind: ManualKind): string | undefined {
  return annotations[requestAnnotation(kind)] || undefined;
}

function unfinished({ status }: Entry, kind: ManualKind): ManualResult | undefined {
  const result = status[manualResultField(kind)];
  return result?.endTime ? undefined : result;
}

/**
 * Read-only requests are repeated, and so are reconciliations, which decide again what to do. A deploy, however, may
 * have happened, may have been for an older commit, or may have had one-off overrides: the user has to decide.
 */
function notDoneAgain(kind: ManualKind, { overridesPatch }: ManualRequest): string | undefined {
  if (kind === "diff" || kind === "validate" || (kind === "reconcile" && overridesPatch === undefined))
    return undefined;
  return `the server that ran this ${kind} ended before it was done, so it is unknown what was applied: check the cluster, then request it again`;
}

// ---------------------------------------------------------------------------------------------------------------
// The annotation's value

const Request = z.strictObject({
  requestValue: z.string().min(1),
  overridesPatch: z.record(z.string(), z.unknown()).nullish(),
});

/** Deeper than any real spec; patches are traversed recursively. */
const deepest = 50;

/** Accepts a plain value, as users annotate by hand, as well as the JSON of kluctl's command line. */
export function parseRequest(annotation: string): Pick<PendingRequest, "request" | "problem"> {
  const value = parseText(annotation);
  if (typeof value !== "object" || value === null) return { request: { requestValue: annotation } };
  const { data, error } = Request.safeParse(value);
  const name = Request.shape.requestValue.safeParse((value as { requestValue?: unknown }).requestValue).data;
  const requestValue = name ?? annotation;
  if (error !== undefined) return { request: { requestValue }, problem: problemOf(error) };
  const { overridesPatch } = data;
  if (!overridesPatch) return { request: { requestValue } };
  if (!isShallow(overridesPatch, deepest))
    return { request: { requestValue }, problem: "invalid request: overridesPatch is nested too deeply" };
  return { request: { requestValue, overridesPatch } };
}

/** JSON or, like kluctl, YAML. Anything else is plain text. */
function parseText(annotation: string): unknown {
  try {
    return JSON.parse(annotation);
  } catch {
    try {
      return parseYaml(annotation);
    } catch {
      return annotation.trimStart().startsWith("{") ? {} : annotation;
    }
  }
}

function problemOf({ issues }: z.ZodError): string {
  const fields = issues.flatMap((issue) => (issue.code === "unrecognized_keys" ? issue.keys : issue.path.slice(0, 1)));
  const wrong = fields.length > 0 ? `${[...new Set(fields)].map(String).join(", ")} is invalid; ` : "";
  return `invalid request: ${wrong}write {"requestValue": "a name"}, optionally with an object overridesPatch`;
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((item) => isShallow(item, levels - 1));
}
