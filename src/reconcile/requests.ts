/** Manual requests: what people ask of one deployment by kluctl's annotations, and where they read what came of it. Pure. */
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
import { loopTimeoutMs } from "./decide.ts";
import { timeOf } from "./time.ts";

type Entry = Deployment | MalformedDeployment;

/** A request that somebody waits to be answered. */
export interface PendingRequest<Kind extends ManualKind = ManualKind> {
  readonly kind: Kind;
  /** What the annotation says; `undefined` if it was taken before, by a loop that came to no end. */
  readonly annotation: string | undefined;
  readonly request: ManualRequest;
  /** Why it cannot be done, if so. */
  readonly problem?: string | undefined;
}

/** The command to be done next. A reconcile is none: it is part of the loop that follows. */
export function nextCommand(deployment: Entry): PendingRequest<ManualCommand> | undefined {
  return manualCommands.map((kind) => findRequest(deployment, kind)).find((pending) => pending !== undefined);
}

/** An annotation goes before a request that was broken off: its answer takes the place of the other's. */
export function findRequest<Kind extends ManualKind>(deployment: Entry, kind: Kind): PendingRequest<Kind> | undefined {
  const annotation = annotationOf(deployment, kind);
  if (annotation !== undefined) return { kind, annotation, ...parseRequest(annotation) };
  const result = unfinished(deployment, kind);
  return result && { kind, annotation, request: result.request, problem: notDoneAgain(kind, result.request) };
}

/** Whether somebody waits for an answer, as far as the resource tells. */
export function isAsked(deployment: Entry): boolean {
  return isAnnotated(deployment) || hasUnfinished(deployment);
}

/** Whether there is a request that nobody has taken yet. */
export function isAnnotated(deployment: Entry): boolean {
  return manualKinds.some((kind) => annotationOf(deployment, kind) !== undefined);
}

/** Whether there is a request that was taken and has no answer yet. Only under the lease does it follow that nobody is at it. */
function hasUnfinished(deployment: Entry): boolean {
  return manualKinds.some((kind) => unfinished(deployment, kind) !== undefined);
}

/** Whether something is asked for that was not asked for before. */
export function asksAnew(deployment: Entry, previous: Entry | undefined): boolean {
  return manualKinds.some((kind) => {
    const asked = annotationOf(deployment, kind);
    return asked !== undefined && (previous === undefined || asked !== annotationOf(previous, kind));
  });
}

/** From when on, in epoch milliseconds, nobody can be at it any more what was taken; `undefined` if nothing was. */
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
 * What only reads is done again, and so is what decides anew what there is to do. But a deploy may have happened, may be
 * of a commit that has passed, or may have been for this once only: that is for whoever asked to say.
 */
function notDoneAgain(kind: ManualKind, { overridesPatch }: ManualRequest): string | undefined {
  if (kind === "diff" || kind === "validate" || (kind === "reconcile" && overridesPatch === undefined))
    return undefined;
  return `the server that ran this ${kind} ended before it was done, so it is unknown what was applied: check the cluster, then request it again`;
}

// ---------------------------------------------------------------------------------------------------------------
// What an annotation says

const Request = z.strictObject({
  requestValue: z.string().min(1),
  overridesPatch: z.record(z.string(), z.unknown()).nullish(),
});

/** Deeper than any real spec; what walks through a patch does so by recursion. */
const deepest = 50;

/** A bare value, as people annotate by hand, names a request as well as the command line's JSON does. */
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

/** JSON, or YAML as kluctl takes it too. What is neither is a text. */
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
