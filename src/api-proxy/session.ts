/** Handles one run's requests to the API server. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { Transform } from "node:stream";
import { parseJson } from "../kit/json.ts";
import { createLimit } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import type { ApiAccess } from "../model.ts";
import { toDryRunDelete } from "./delete-options.ts";
import type { Discovery } from "./discovery.ts";
import type { Guesses } from "./guesses.ts";
import { isJson } from "./negotiate.ts";
import { permit, type Permitted } from "./permit.ts";
import { readAnswer, readBytes } from "./read-answer.ts";
import { Refusal, toStatus } from "./refusal.ts";
import type { RefusedLists } from "./refused-lists.ts";
import { createSecretMasks, type SecretWrite } from "./secret-masks.ts";

export interface SessionDeps {
  readonly access: ApiAccess;
  readonly discovery: Discovery;
  readonly refused: RefusedLists;
  readonly guesses: Guesses;
  readonly limits: SessionLimits;
  /** Monotonic milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

export interface SessionLimits {
  /** Total of a run. */
  readonly requests: number;
  readonly atOnce: number;
  /** Twice the API server's own limit. */
  readonly bodyBytes: number;
  /** Limit of responses that must be read to the end. Parsing them blocks the event loop. */
  readonly wholeBytes: number;
  /** Limit of responses that are streamed. */
  readonly answerBytes: number;
  readonly timeoutMs: number;
}

export const defaultLimits: SessionLimits = {
  // kluctl makes some hundred, and one or two more per object.
  requests: 100_000,
  atOnce: 64,
  bodyBytes: 6 * 2 ** 20,
  wholeBytes: 8 * 2 ** 20,
  answerBytes: 512 * 2 ** 20,
  timeoutMs: 65_000,
};

export interface Session {
  /** `url`: the part below the run's own path. Never rejects. */
  handle(req: IncomingMessage, res: ServerResponse, url: string): Promise<void>;
  /** Values of Secrets that the run got masks for. */
  maskedValues(): string[];
  /** Whether a request waits for its response. */
  isServing(): boolean;
  close(): void;
}

export function createSession({ access, discovery, refused, guesses, limits, now, log }: SessionDeps): Session {
  const masks = createSecretMasks(guesses);
  /** One Secret at a time, so that a run with many of them takes no more of the event loop than one with a single one. */
  const masking = createLimit(1);
  const openedAt = now();
  const ended = new AbortController();
  /** Rejections that are still logged: kluctl's own requests cause none, but a project could cause any number. */
  let untold = 10;
  let requests = 0;
  let running = 0;

  async function handle(req: IncomingMessage, res: ServerResponse, url: string): Promise<void> {
    // Checked first, because most of kluctl's requests end here.
    const known = req.method === "GET" && requests < limits.requests && refused.find(access.account, url);
    if (known) {
      requests++;
      req.resume();
      return send(res, 403, json, known);
    }
    const abort = new AbortController();
    const stop = () => abort.abort();
    res.once("close", stop);
    ended.signal.addEventListener("abort", stop, { once: true });
    const timer = setTimeout(stop, limits.timeoutMs);
    running++;
    try {
      if (++requests > limits.requests)
        throw new Refusal(403, `a preview cannot make more than ${limits.requests} requests`);
      if (running > limits.atOnce) throw new Refusal(429, "a preview made too many requests at once");
      await answer(req, res, url, abort.signal);
    } catch (error) {
      fail(req, res, error, abort.signal);
    } finally {
      running--;
      clearTimeout(timer);
      res.off("close", stop);
      ended.signal.removeEventListener("abort", stop);
    }
  }

  async function answer(req: IncomingMessage, res: ServerResponse, url: string, signal: AbortSignal): Promise<void> {
    const { method = "", headers } = req;
    const request = permit({ method, url, headers });
    const body = await readBytes(
      req,
      limits.bodyBytes,
      () => new Refusal(413, "the request is too large for a preview"),
    );
    if (request.what === "discovery" || request.what === "schema") {
      const { status, headers: said, body: document } = await discovery.answer(access, request, openedAt);
      return send(res, status, said["content-type"], document);
    }
    const secret = await toSecretWrite(request, body);
    const upstream = await ask(request, toBody(request, body, secret), signal);
    await pass(request, upstream, res, url, secret?.answer ?? ((document) => masks.read(document)));
  }

  async function toSecretWrite({ method, isSecret, ...of }: Permitted, body: Buffer): Promise<SecretWrite | undefined> {
    if (!isSecret || method === "GET") return undefined;
    const document = method === "DELETE" ? {} : parseJson(body.toString("utf8"));
    return masking.run(() => masks.write(document, { namespace: of.namespace ?? "", name: of.name ?? "" }));
  }

  function toBody({ method, deleteOptions }: Permitted, body: Buffer, secret: SecretWrite | undefined) {
    if (method === "GET") return undefined;
    if (method === "DELETE") return toDryRunDelete(body, deleteOptions ?? {});
    return secret === undefined ? body : Buffer.from(JSON.stringify(secret.document));
  }

  /** Every request is a read or a dry run, so it can be repeated: with a renewed login, or on another connection. */
  async function ask(request: Permitted, body: Buffer | undefined, signal: AbortSignal): Promise<IncomingMessage> {
    const { method, path, accept, contentType = json } = request;
    const headers = {
      Accept: accept,
      ...(body && { "Content-Type": contentType, "Content-Length": String(body.length) }),
    };
    const exchange = { method, path, headers, body, signal };
    let upstream: IncomingMessage;
    try {
      upstream = await access.send(exchange);
    } catch (error) {
      if (signal.aborted || error instanceof Refusal) throw error;
      return access.send(exchange);
    }
    if (upstream.statusCode !== 401) return upstream;
    upstream.resume();
    access.renewLogin();
    return access.send(exchange);
  }

  async function pass(
    request: Permitted,
    upstream: IncomingMessage,
    res: ServerResponse,
    url: string,
    hideSecrets: (document: unknown) => Promise<unknown>,
  ): Promise<void> {
    const { statusCode: status = 502, headers } = upstream;
    if (!isJson(headers["content-type"]) || (status >= 300 && status < 400) || headers["content-encoding"]) {
      upstream.destroy();
      // A proxy in front of the API server, and Go's own 404 responses, do not send JSON.
      throw new Refusal(status === 404 ? 404 : 502, `the API server responded with status ${status} and no JSON`);
    }
    const isReadList = request.what === "list" && request.method === "GET";
    const isRefusedList = status === 403 && isReadList;
    if (status === 200 && isReadList) refused.granted(access.account, url);
    if (request.isSecret || isRefusedList) {
      const { body } = await readAnswer(upstream, limits.wholeBytes);
      const hidden = () => hideSecrets(parseJson(body.toString("utf8")));
      const shown = request.isSecret ? Buffer.from(JSON.stringify(await masking.run(hidden))) : body;
      if (isRefusedList) refused.remember(access.account, url, shown);
      return send(res, status, json, shown, headers["retry-after"]);
    }
    for (const name of ["content-type", "content-length", "retry-after", "warning"]) {
      const value = headers[name];
      if (value !== undefined) res.setHeader(name, value);
    }
    res.writeHead(status);
    await pipeline(upstream, bounded(limits.answerBytes), res);
  }

  function fail(req: IncomingMessage, res: ServerResponse, error: unknown, signal: AbortSignal): void {
    if (res.headersSent || res.destroyed) {
      // kluctl must notice that the response is incomplete.
      res.destroy();
      return;
    }
    if (error instanceof Refusal) {
      if (error.status < 500 && untold-- > 0)
        log.info({ method: req.method, why: error.message }, "request of a preview rejected");
      req.resume();
      send(res, error.status, json, toText(error.status, error.message), error.status === 429 ? "1" : undefined);
      return;
    }
    req.resume();
    const [status, why] = signal.aborted ? [504, "no response in time"] : [502, (error as Error).message];
    if (!ended.signal.aborted)
      log.warn({ method: req.method, err: error }, "request of a preview failed: API server unreachable");
    send(res, status, json, toText(status, `the API server cannot be reached: ${why}`));
  }

  return {
    handle,
    maskedValues: () => masks.values(),
    isServing: () => running > 0,
    close() {
      ended.abort();
      access.release();
    },
  };
}

const json = "application/json";

function toText(status: number, message: string): Buffer {
  return Buffer.from(JSON.stringify(toStatus(status, message)));
}

function send(res: ServerResponse, status: number, type: string | undefined, body: Buffer, retryAfter?: string): void {
  res.writeHead(status, {
    ...(type !== undefined && { "Content-Type": type }),
    "Content-Length": body.length,
    ...(retryAfter !== undefined && { "Retry-After": retryAfter }),
    // The rest of the request is not read.
    ...(status === 413 && { Connection: "close" }),
  });
  res.end(body);
}

function bounded(mostBytes: number): Transform {
  let length = 0;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      length += chunk.length;
      if (length > mostBytes) done(new Error("the response is too large for a preview"));
      else done(null, chunk);
    },
  });
}
