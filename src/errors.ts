/** The errors that code depends on. All others are `Error` with a message and a cause. */

/** A mistake of the caller; becomes an HTTP status. */
export class RequestError extends Error {
  override name = "RequestError";
  readonly status: number;
  /** How to fix it. */
  readonly hint: string | undefined;

  constructor(status: number, message: string, hint?: string) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** Redis did not accept a request in time: the sender has to send it again. */
export class QueueUnavailableError extends Error {
  override name = "QueueUnavailableError";
}

/** The configuration cannot be used; the message lists every problem. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

/** Another job has been fetching from this repository for a long time: try again later. */
export class RemoteBusyError extends Error {
  override name = "RemoteBusyError";

  /** When to try again, in milliseconds: the slower the remote, the later. */
  readonly retryAfterMs: number;

  /** `slowForMs`: for how long the other job has been fetching. */
  constructor(repo: string, slowForMs: number) {
    super(`${repo} responds slowly; waiting for the fetch in progress`);
    this.retryAfterMs = Math.min(slowForMs / 5, 10_000);
  }
}

export type SourceProblem =
  | "unreachable" // network, timeout or server error: transient
  | "unauthorized" // the remote rejects the login or requires one
  | "not-found" // there is no such repository
  | "empty" // a repository without any commit
  | "ref-not-found" // there is no such branch, tag or commit, perhaps not yet
  | "path-not-found" // there is no such directory in that commit
  | "refused" // connecting to such a URL is not allowed
  | "disk"; // no space left, or the cache directory is not writable

/** A git or OCI source could not be read. */
export class SourceError extends Error {
  override name = "SourceError";
  readonly problem: SourceProblem;
  /** The message of kluctl's own controller for this error, if clients wait for those words. */
  readonly inKluctlsWords: string | undefined;

  constructor(
    problem: SourceProblem,
    message: string,
    options?: ErrorOptions & { inKluctlsWords?: string | undefined },
  ) {
    super(message, options);
    this.problem = problem;
    this.inKluctlsWords = options?.inKluctlsWords;
  }
}

/** The project could not be loaded or rendered; nothing was applied. The message is kluctl's own. */
export class PrepareError extends Error {
  override name = "PrepareError";
}

/**
 * An operator has to change something before this deployment can be previewed; the pull request itself is not at fault.
 */
export class PreviewRefusedError extends Error {
  override name = "PreviewRefusedError";
}

/** A project that was to be rendered from its files alone needs the cluster or the network. */
export class NeedsMoreError extends PrepareError {
  override name = "NeedsMoreError";
  readonly needs: "cluster" | "network";

  constructor(needs: "cluster" | "network", message: string, options?: ErrorOptions) {
    super(message, options);
    this.needs = needs;
  }
}

/** kluctl ended without a result: timeout, lost lease, shutdown, out of memory, or a preview that only waited. */
export class KilledError extends Error {
  override name = "KilledError";
  readonly why: "timeout" | "lease-lost" | "stopped" | "signal" | "idle";
  /** What the program of the renderer was working on then: `namespace/name`. */
  rendering?: string;

  constructor(why: KilledError["why"], message: string) {
    super(message);
    this.why = why;
  }
}

/** kluctl's result could not be processed, so nothing is known of it. The message contains nothing of its content. */
export class UnreadableResultError extends Error {
  override name = "UnreadableResultError";
}

/** kluctl cannot be run: missing, too old or not executable. */
export class KluctlUnavailableError extends Error {
  override name = "KluctlUnavailableError";
}

/** `towline-flux` is not there, so Flux's Kustomizations cannot be rendered. */
export class FluxRendererUnavailableError extends Error {
  override name = "FluxRendererUnavailableError";
}

/** `towline-flux` failed with what it was given, and would again. */
export class FluxRenderError extends Error {
  override name = "FluxRenderError";
  /** What it was working on then: `namespace/name`. */
  rendering?: string;
}

/** The Kubernetes API responded with an error after all sensible retries. `status` 0: no response. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** Whether the API server refuses this to the account, so that only an operator can change it. */
export function isDenied(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status === 401 || error.status === 403);
}

/** The spec changed between the check of it and the start of what it asks for: nothing was applied. Start again. */
export class SpecChangedError extends Error {
  override name = "SpecChangedError";
}

/** The reason of an abort: a newer request for the same subject is waiting, so this result is no longer needed. */
export class SupersededError extends Error {
  override name = "SupersededError";
}

export type ForgeProblem =
  | "unreachable" // network, timeout or server error: transient
  | "rate-limited" // `retryAfterMs` says how long to wait
  | "unauthorized" // the login is rejected or lacks permission
  | "not-found" // does not exist; hosts also respond this way if the login lacks permission
  | "refused"; // the host rejects the request itself

/** A forge did not fulfil a request. The message names the request and its target; it contains no token and no body. */
export class ForgeError extends Error {
  override name = "ForgeError";
  readonly problem: ForgeProblem;
  /** When to try again, in milliseconds, if the host says so. */
  readonly retryAfterMs: number | undefined;

  constructor(problem: ForgeProblem, message: string, options?: ErrorOptions & { retryAfterMs?: number | undefined }) {
    super(message, options);
    this.problem = problem;
    this.retryAfterMs = options?.retryAfterMs;
  }
}

export type NotifyProblem =
  | "later" // network, timeout, server error or rate limit: transient
  | "refused"; // the target rejects the login or the message: a person has to change something

/** A target did not accept a notification. The message names the target's host; it contains no address, token or body. */
export class NotifyError extends Error {
  override name = "NotifyError";
  readonly problem: NotifyProblem;
  /** When to try again, in milliseconds, if the target says so. */
  readonly retryAfterMs: number | undefined;

  constructor(problem: NotifyProblem, message: string, options?: ErrorOptions & { retryAfterMs?: number | undefined }) {
    super(message, options);
    this.problem = problem;
    this.retryAfterMs = options?.retryAfterMs;
  }
}
