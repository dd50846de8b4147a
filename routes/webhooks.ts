/**
 * Step 1 of a push: receives `POST /webhooks/<forge id>` from a git host. Verifies the sender before anything is
 * parsed, and answers 202 only once Redis has the requests. Next: src/forge/github/webhook.ts, then
 * src/intake/intake.ts.
 */
import express, { type Express, type Request, type Response } from "express";
import { QueueUnavailableError, RequestError } from "../src/errors.ts";
import { within } from "../src/kit/deadline.ts";
import { type WebhookSource, readHeaders } from "../src/forge/webhook-source.ts";
import type { Accept } from "../src/intake/intake.ts";
import type { Receipt } from "../src/model/receipt.ts";
import type { Logger } from "../src/log.ts";
import type { GitEvent } from "../src/model.ts";
import { noTracing, type Tracing } from "../src/log/tracing.ts";
import { createBodyReader } from "./body.ts";
import { createErrorAnswers, createNotFound, sendProblem } from "./errors.ts";
import { createSenderOf } from "./sender.ts";

export interface WebhookRoutesDeps {
  /** By forge id. */
  readonly sources: ReadonlyMap<string, WebhookSource>;
  readonly accept: Accept;
  /** Limit for one body, before and after decompression. */
  readonly maxBodyBytes: number;
  /** Limit for all bodies being received; default: eight of the largest size. */
  readonly maxBytesInFlight?: number;
  /** Whose `X-Forwarded-For` is trusted; default: no address. */
  readonly isProxy?: (address: string) => boolean;
  readonly log: Logger;
  readonly observe?: WebhookObserver;
  readonly tracing?: Tracing | undefined;
  /** Records the delivery for display. Called after the response; never for an unknown forge. */
  readonly remember?: ((delivery: Answered) => void) | undefined;
}

/** A delivery and its response. */
export interface Answered extends Handled {
  readonly forge: string;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly ms: number;
  readonly status: number;
}

interface Handled {
  readonly event?: GitEvent | undefined;
  readonly receipt?: Receipt | undefined;
  /** Why verification failed. */
  readonly refused?: string | undefined;
}

export interface WebhookObserver {
  /** Called for each response. `event` is "none" if the body was not parsed; both labels have few values. */
  delivery(forge: string, event: GitEvent["kind"] | "none", status: number, seconds: number): void;
}

/** Git hosts give up after ten seconds; the queue has its own limit, but this one holds in any case. */
const acceptWithinMs = 2_000;

/** The sender disconnected before the response; the number comes from nginx. */
const clientClosedRequest = 499;

/**
 * A separate application with one route and no other middleware, because every delivery passes through it, up to a
 * thousand per second.
 */
export function createWebhookApp(deps: WebhookRoutesDeps): Express {
  const { sources, accept, maxBodyBytes, maxBytesInFlight = 8 * maxBodyBytes, log, observe, remember } = deps;
  const { tracing = noTracing, isProxy = () => false } = deps;
  const path = "/webhooks/:id";

  function findSource(req: Request): WebhookSource {
    const id = req.params["id"];
    const source = typeof id === "string" ? sources.get(id) : undefined;
    if (source === undefined) {
      throw new RequestError(
        404,
        "Unknown forge: the last part of the webhook's URL must be the id of a configured forge.",
      );
    }
    return source;
  }

  function observeAnswer(req: Request, res: Response): void {
    const startedAt = performance.now();
    const { id } = req.params;
    const forge = typeof id === "string" && sources.has(id) ? id : "unknown";
    res.once("close", () => {
      const handled = (res.locals["handled"] as Handled | undefined) ?? {};
      const status = res.headersSent ? res.statusCode : clientClosedRequest;
      const ms = performance.now() - startedAt;
      observe?.delivery(forge, handled.event?.kind ?? "none", status, ms / 1_000);
      if (forge !== "unknown" && req.method === "POST") {
        remember?.({ ...handled, forge, status, ms: Math.round(ms), at: Math.round(Date.now() - ms) });
      }
    });
  }

  async function receive(req: Request, res: Response): Promise<void> {
    const source = findSource(req);
    const headers = readHeaders(req.rawHeaders);
    const body = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0); // the signed bytes
    const verdict = await source.verify(headers, body);
    if (!verdict.genuine) {
      log.warn({ forge: source.id, reason: verdict.reason }, "delivery rejected");
      res.locals["handled"] = { refused: verdict.reason };
      return sendProblem(res, 401, { error: "The delivery could not be verified.", hint: verdict.reason });
    }
    // Unverified requests start no trace.
    const receipt = await tracing.inSpan("receive", { forge: source.id, bytes: body.length }, async () => {
      const event = source.parse(headers, body);
      res.locals["handled"] = { event };
      const receipt = await acceptInTime(accept, event);
      res.locals["handled"] = { event, receipt };
      return receipt;
    });
    sendReceipt(res, receipt);
  }

  const app = express().disable("x-powered-by").disable("etag"); // responses are never requested again
  app
    .route(path)
    .all((req, res, next) => {
      observeAnswer(req, res);
      findSource(req);
      if (req.method === "POST") return next();
      res.set("Allow", "POST");
      sendProblem(res, 405, { error: "Only POST is supported." });
    })
    .post(createBodyReader({ maxBodyBytes, maxBytesInFlight, senderOf: createSenderOf(isProxy) }), receive);
  app.use(createNotFound("Send webhooks to /webhooks/<forge id>."));
  app.use(createErrorAnswers({ log }));
  return app;
}

/** Like `res.json`, in one write. */
function sendReceipt(res: Response, receipt: Receipt): void {
  const text = JSON.stringify(receipt);
  res
    .writeHead(202, { "Content-Type": "application/json; charset=utf-8", "Content-Length": Buffer.byteLength(text) })
    .end(text);
}

function acceptInTime(accept: Accept, event: GitEvent): Promise<Receipt> {
  return within(acceptWithinMs, accept(event), () => {
    throw new QueueUnavailableError(`the queue did not respond within ${acceptWithinMs} ms`);
  });
}
