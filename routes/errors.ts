/** Error responses: JSON with the problem and how to fix it. */
import type { ErrorRequestHandler, RequestHandler, Response } from "express";
import type { Logger } from "../src/log.ts";
import { QueueUnavailableError, RequestError } from "../src/errors.ts";

export interface Problem {
  readonly error: string;
  readonly hint?: string | undefined;
}

export function sendProblem(res: Response, status: number, problem: Problem): void {
  res.status(status).json(problem);
}

/** The only place that translates errors to HTTP. Only mistakes of the sender are described in detail. */
export function createErrorAnswers({ log }: { readonly log: Logger }): ErrorRequestHandler {
  return function answerError(error: unknown, _req, res, _next) {
    if (res.headersSent) return void res.destroy(); // the response has started; no error can be sent
    if (error instanceof QueueUnavailableError) {
      // Do not log the error itself: its cause may contain a Redis command with a password.
      log.warn({ reason: error.message }, "could not queue a request");
      res.set("Retry-After", "5");
      return sendProblem(res, 503, {
        error: "The queue is not available at the moment.",
        hint: "Send the delivery again; otherwise the next sweep finds the change.",
      });
    }
    if (error instanceof RequestError)
      return sendProblem(res, error.status, { error: error.message, hint: error.hint });
    const status = clientStatus(error);
    if (status !== undefined) return sendProblem(res, status, problems[status] ?? { error: "Invalid request." });
    log.error({ err: error }, "request failed");
    return sendProblem(res, 500, { error: "Internal server error.", hint: "See the server's log." });
  };
}

const problems: Readonly<Record<number, Problem>> = {
  413: {
    error: "The body is too large.",
    hint: "At most 4 kB are accepted, before and after decompression.",
  },
  415: {
    error: "Unsupported content encoding.",
    hint: "Send the body uncompressed, or with gzip, deflate, br or zstd.",
  },
};

/** The last handler, after all routes. `hint` lists what exists. */
export function createNotFound(hint: string): RequestHandler {
  return function answerNotFound(_req, res) {
    sendProblem(res, 404, { error: "Not found.", hint });
  };
}

/** The status of an error thrown by express or its body parser, if the sender caused it. */
function clientStatus(error: unknown): number | undefined {
  const status = error instanceof Error && "status" in error ? error.status : undefined;
  return typeof status === "number" && status >= 400 && status < 500 ? status : undefined;
}
