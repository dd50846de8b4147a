/** Classifies failures of the work: the message, and whether a retry may help. Pure. */
import {
  ApiError,
  FluxRenderError,
  KilledError,
  KluctlUnavailableError,
  PrepareError,
  PreviewRefusedError,
  SourceError,
  type SourceProblem,
  UnreadableResultError,
} from "../errors.ts";
import type { ResultError } from "../model.ts";

export interface Failure {
  readonly message: string;
  /** `soon`: a retry may be enough. `person`: someone has to change something; the interval still retries. */
  readonly retry: "soon" | "person";
  /** The message that kluctl's own controller has for this error. */
  readonly inKluctlsWords?: string | undefined;
}

const sourceRetry: Record<SourceProblem, Failure["retry"]> = {
  unreachable: "soon",
  disk: "soon",
  "ref-not-found": "soon", // a webhook may arrive before the host's own replicas are up to date
  unauthorized: "person",
  "not-found": "person",
  empty: "person",
  "path-not-found": "person",
  refused: "person",
};

export function toFailure(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof SourceError)
    return { message, retry: sourceRetry[error.problem], inKluctlsWords: error.inKluctlsWords };
  if (error instanceof PrepareError) return { message, retry: transient(message) ? "soon" : "person" };
  if (
    error instanceof PreviewRefusedError ||
    error instanceof UnreadableResultError ||
    error instanceof FluxRenderError
  ) {
    return { message, retry: "person" };
  }
  // What timed out once will most likely time out again: retry at the interval, not in a tight loop.
  if (error instanceof KilledError)
    return { message, retry: error.why === "timeout" || error.why === "idle" ? "person" : "soon" };
  if (error instanceof KluctlUnavailableError || error instanceof ApiError) return { message, retry: "soon" };
  return { message, retry: "soon" };
}

/** Classifies kluctl's errors per object: if one of them needs a person, retrying soon does not help. */
export function retryOf(errors: readonly ResultError[]): Failure["retry"] {
  return errors.every(({ message }) => transient(message)) ? "soon" : "person";
}

const transientWords =
  /connection (refused|reset|timed out)|i\/o timeout|TLS handshake timeout|no such host|EOF|too many requests|the server is currently unable|service unavailable|internal error occurred: failed calling webhook|etcdserver|object has been modified|the server was unable to return a response|no route to host|network is unreachable|temporary failure/i;

function transient(message: string): boolean {
  return transientWords.test(message);
}
