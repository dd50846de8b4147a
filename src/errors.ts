/** The few errors that some code decides on. Everything else is `Error` with a message and a cause. */

/** Our caller's fault; becomes an HTTP status. */
export class RequestError extends Error {
  override name = "RequestError";
  readonly status: number;
  /** What to do. */
  readonly hint: string | undefined;

  constructor(status: number, message: string, hint?: string) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** Redis could not take a request in time: the sender has to send it again. */
export class QueueUnavailableError extends Error {
  override name = "QueueUnavailableError";
}

/** The configuration cannot be used; the message lists every problem. */
export class ConfigError extends Error {
  override name = "ConfigError";
}

/** Somebody else has been talking with that repository for long: it is free in a while. */
export class RemoteBusyError extends Error {
  override name = "RemoteBusyError";

  /** How long that had taken by then. */
  readonly slowForMs: number;

  constructor(repo: string, slowForMs: number) {
    super(`${repo} responds slowly; waiting for the fetch in progress`);
    this.slowForMs = slowForMs;
  }
}

export type SourceProblem =
  | "unreachable" // network, time-out, a server error: time may mend it
  | "unauthorized" // the remote refuses the login, or wants one
  | "not-found" // no such repository
  | "empty" // a repository without any commit
  | "ref-not-found" // no such branch, tag or commit; perhaps not yet
  | "path-not-found" // no such directory in that commit
  | "refused" // we do not talk to such a URL
  | "disk"; // no room, or the cache directory cannot be written

/** Git could not give what was asked for. */
export class SourceError extends Error {
  override name = "SourceError";
  readonly problem: SourceProblem;
  /** What kluctl's own controller says in such a case, where others wait for its words. */
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

/** The project could not be loaded or rendered: nothing was applied. The message is kluctl's own. */
export class PrepareError extends Error {
  override name = "PrepareError";
}

/** An operator has to change something before this deployment is previewed: what merges has nothing to do with it. */
export class PreviewRefusedError extends Error {
  override name = "PreviewRefusedError";
}

/** What was to be rendered from its files alone needs more. */
export class NeedsMoreError extends PrepareError {
  override name = "NeedsMoreError";
  readonly needs: "cluster" | "network";

  constructor(needs: "cluster" | "network", message: string, options?: ErrorOptions) {
    super(message, options);
    this.needs = needs;
  }
}

/** kluctl ended before it could say what it did: time-out, lost lease, shutdown, out of memory. */
export class KilledError extends Error {
  override name = "KilledError";
  readonly why: "timeout" | "lease-lost" | "stopped" | "signal";

  constructor(why: KilledError["why"], message: string) {
    super(message);
    this.why = why;
  }
}

/** kluctl cannot be run at all: missing, too old, not executable. */
export class KluctlUnavailableError extends Error {
  override name = "KluctlUnavailableError";
}

/** The Kubernetes API answered with an error, after the retries that make sense. `status` 0: no answer. */
export class ApiError extends Error {
  override name = "ApiError";
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** The reason of an abort: something newer of the same subject waits, so that finishing this is of no use. */
export class SupersededError extends Error {
  override name = "SupersededError";
}

export type ForgeProblem =
  | "unreachable" // network, time-out, a server error: time may mend it
  | "rate-limited" // `retryAfterMs` says for how long
  | "unauthorized" // the login is not accepted, or may not do this
  | "not-found" // gone; hosts also answer so to those who may not know
  | "refused"; // the request itself is not acceptable to the host

/** A forge did not do what was asked. The message says what and on what, and holds no token and no body. */
export class ForgeError extends Error {
  override name = "ForgeError";
  readonly problem: ForgeProblem;
  /** After how long to ask again, milliseconds, where the host says so. */
  readonly retryAfterMs: number | undefined;

  constructor(problem: ForgeProblem, message: string, options?: ErrorOptions & { retryAfterMs?: number | undefined }) {
    super(message, options);
    this.problem = problem;
    this.retryAfterMs = options?.retryAfterMs;
  }
}
