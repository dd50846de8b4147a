/** `POST /webhooks/<forge id>`: genuine, understood, accepted. */
import express, { type Express, type Request, type Response } from "express";
import { QueueUnavailableError, RequestError } from "../src/errors.ts";
import { type WebhookSource, readHeaders } from "../src/forge/webhook-source.ts";
import type { Accept, Receipt } from "../src/intake.ts";
import type { Logger } from "../src/log.ts";
import type { GitEvent } from "../src/model.ts";
import { noTracing, type Tracing } from "../src/tracing.ts";
import { createBodyReader } from "./body.ts";
import { createErrorAnswers, createNotFound, sendProblem } from "./errors.ts";
import { createSenderOf } from "./sender.ts";

export interface WebhookRoutesDeps {
  /** By the forge's id. */
  readonly sources: ReadonlyMap<string, WebhookSource>;
  readonly accept: Accept;
  /** Of one body, also of what a compressed one unpacks to. */
  readonly maxBodyBytes: number;
  /** Of all bodies that are being received; eight of the largest unless set. */
  readonly maxBytesInFlight?: number;
  /** Whose `X-Forwarded-For` is believed; nobody's unless set. */
  readonly isProxy?: (address: string) => boolean;
  readonly log: Logger;
  readonly observe?: WebhookObserver;
  readonly tracing?: Tracing | undefined;
  /** Remembers it, for people. Called once the answer is given; never with what came to an unknown address. */
  readonly remember?: ((delivery: Answered) => void) | undefined;
}

/** A delivery and what was answered. */
export interface Answered extends Told {
  readonly forge: string;
  /** Epoch milliseconds. */
  readonly at: number;
  readonly ms: number;
  readonly status: number;
}

interface Told {
  readonly event?: GitEvent | undefined;
  readonly receipt?: Receipt | undefined;
  /** Why it is not genuine. */
  readonly refused?: string | undefined;
}

export interface WebhookObserver {
  /** One request was answered. `event` is "none" when it was not looked into; both texts take few values. */
  delivery(forge: string, event: GitEvent["kind"] | "none", status: number, seconds: number): void;
}

/** Git hosts give up after ten seconds; the queue has its own limit, and this one holds whatever it does. */
const acceptWithinMs = 2_000;

/** Nobody waited for an answer; the number is nginx's. */
const clientClosedRequest = 499;

/**
 * An application of its own, with one route and nothing before it: this is the way of every delivery, a thousand in a
 * second.
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
      const told = (res.locals["told"] as Told | undefined) ?? {};
      const status = res.headersSent ? res.statusCode : clientClosedRequest;
      const ms = performance.now() - startedAt;
      observe?.delivery(forge, told.event?.kind ?? "none", status, ms / 1_000);
      if (forge !== "unknown" && req.method === "POST") {
        remember?.({ ...told, forge, status, ms: Math.round(ms), at: Math.round(Date.now() - ms) });
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
      res.locals["told"] = { refused: verdict.reason };
      return sendProblem(res, 401, { error: "The delivery could not be verified.", hint: verdict.reason });
    }
    // No trace begins with what nobody signed.
    const receipt = await tracing.inSpan("receive", { forge: source.id, bytes: body.length }, async () => {
      const event = source.parse(headers, body);
      res.locals["told"] = { event };
      const receipt = await acceptInTime(accept, event);
      res.locals["told"] = { event, receipt };
      return receipt;
    });
    sendReceipt(res, receipt);
  }

  const app = express().disable("x-powered-by").disable("etag"); // nobody asks for a receipt again
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

/** As `res.json` would, in one go. */
function sendReceipt(res: Response, receipt: Receipt): void {
  const text = JSON.stringify(receipt);
  res
    .writeHead(202, { "Content-Type": "application/json; charset=utf-8", "Content-Length": Buffer.byteLength(text) })
    .end(text);
}

async function acceptInTime(accept: Accept, event: GitEvent): Promise<Receipt> {
  const accepted = accept(event);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new QueueUnavailableError(`the queue did not respond within ${acceptWithinMs} ms`)),
      acceptWithinMs,
    );
  });
  try {
    return await Promise.race([accepted, late]);
  } finally {
    clearTimeout(timer);
    accepted.catch(() => {}); // it may still fail after it was given up
  }
}
