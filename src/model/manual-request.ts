/** Requests that users make by annotation, and what comes of them, as `kluctl gitops` reads it. */
import type { JsonObject } from "../kit/json.ts";

/** In the order in which they are processed. */
export const manualCommands = ["diff", "deploy", "prune", "validate"] as const;
export type ManualCommand = (typeof manualCommands)[number];
/** The kinds of requests a user can make for one deployment by annotation. */
export type ManualKind = ManualCommand | "reconcile";

export const manualKinds: readonly ManualKind[] = [...manualCommands, "reconcile"];

/** The annotation that holds the request until it is taken. */
export function requestAnnotation(kind: ManualKind): string {
  return `kluctl.io/request-${kind}`;
}

export interface ManualRequest {
  /** Identifies the request: the client waits for a result that carries this value. */
  readonly requestValue: string;
  /** A JSON merge patch of the resource, for this request only. */
  readonly overridesPatch?: JsonObject | undefined;
}

/** The outcome of the last request of its kind. */
export interface ManualResult {
  readonly request: ManualRequest;
  /** RFC 3339. */
  readonly startTime: string;
  /** Once set, the client stops waiting. */
  readonly endTime?: string | undefined;
  readonly reconcileId: string;
  /** The id under which the result is stored. */
  readonly resultId?: string | undefined;
  readonly commandError?: string | undefined;
}

export type ManualResultField = `${ManualKind}RequestResult`;
export type ManualResults = { readonly [Field in ManualResultField]?: ManualResult | undefined };

/** The status field that holds the result. */
export function manualResultField(kind: ManualKind): ManualResultField {
  return `${kind}RequestResult`;
}
