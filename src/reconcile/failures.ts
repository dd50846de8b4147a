/** What a failure of the work means: the words for people, and who can mend it. Pure. */
import {
  ApiError,
  KilledError,
  KluctlUnavailableError,
  PrepareError,
  PreviewRefusedError,
  SourceError,
  type SourceProblem,
} from "../errors.ts";
import type { ResultError } from "../model.ts";

export interface Failure {
  readonly message: string;
  /** `soon`: trying again may be enough. `person`: only a change helps; intervals still look again. */
  readonly retry: "soon" | "person";
  /** What kluctl's own controller says in such a case. */
  readonly inKluctlsWords?: string | undefined;
}

const sourceRetry: Record<SourceProblem, Failure["retry"]> = {
  unreachable: "soon",
  disk: "soon",
  "ref-not-found": "soon", // a webhook may be faster than the host's own replicas
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
  if (error instanceof PreviewRefusedError) return { message, retry: "person" };
  // What ran into its time-out once will most likely do so again: let the interval try, not a tight loop.
  if (error instanceof KilledError) return { message, retry: error.why === "timeout" ? "person" : "soon" };
  if (error instanceof KluctlUnavailableError || error instanceof ApiError) return { message, retry: "soon" };
  return { message, retry: "soon" };
}

/** Errors that kluctl reports per object: one that a person has to mend makes all of them wait for a person. */
export function retryOf(errors: readonly ResultError[]): Failure["retry"] {
  return errors.every(({ message }) => transient(message)) ? "soon" : "person";
}

const transientWords =
  /connection (refused|reset|timed out)|i\/o timeout|TLS handshake timeout|no such host|EOF|too many requests|the server is currently unable|service unavailable|internal error occurred: failed calling webhook|etcdserver|object has been modified|the server was unable to return a response|no route to host|network is unreachable|temporary failure/i;

function transient(message: string): boolean {
  return transientWords.test(message);
}
