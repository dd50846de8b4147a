/** `POST /webhooks/<forge id>`: genuine, understood, accepted. */
import express, { type Request, type Response, type Router } from "express";
import { QueueUnavailableError, RequestError } from "../src/errors.ts";
import { type WebhookSource, readHeaders } from "../src/forge/webhook-source.ts";
import type { Accept, Receipt } from "../src/intake.ts";
import type { Logger } from "../src/log.ts";
import type { GitEvent } from "../src/model.ts";
import { noTracing, type Tracing } from "../src/tracing.ts";
import { createBodyBudget } from "./body-budget.ts";
import { createErrorAnswers, createNotFound, sendProblem } from "./errors.ts";

export interface WebhookRoutesDeps {
  /** By the forge's id. */
  readonly sources: ReadonlyMap<string, WebhookSource>;
  readonly accept: Accept;
  /** Of one body, also of what a compressed one unpacks to. */
  readonly maxBodyBytes: number;
  /** Of all bodies that are being received; eight of the largest unless set. */
  readonly maxBytesInFlight?: number;
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

export function createWebhookRoutes(deps: WebhookRoutesDeps): Router {
  const { sources, accept, maxBodyBytes, maxBytesInFlight = 8 * maxBodyBytes, log, observe, remember } = deps;
  const { tracing = noTracing } = deps;
  const path = "/webhooks/:id";

  function findSource(req: Request): WebhookSource {
    const id = req.params["id"];
    const source = typeof id === "string" ? sources.get(id) : undefined;
    if (source === undefined) {
      throw new RequestError(
        404,
        "There is no such forge: the last part of the webhook's URL is the id of a configured one.",
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
      log.warn({ forge: source.id, reason: verdict.reason }, "delivery refused");
      res.locals["told"] = { refused: verdict.reason };
      return sendProblem(res, 401, { error: "The delivery is not genuine.", hint: verdict.reason });
    }
    // No trace begins with what nobody signed.
    const receipt = await tracing.inSpan("receive", { forge: source.id, bytes: body.length }, async () => {
      const event = source.parse(headers, body);
      res.locals["told"] = { event };
      const receipt = await acceptInTime(accept, event);
      res.locals["told"] = { event, receipt };
      return receipt;
    });
    res.status(202).json(receipt);
  }

  const router = express.Router();
  router.all(path, (req, res, next) => {
    observeAnswer(req, res);
    findSource(req);
    if (req.method === "POST") return next();
    res.set("Allow", "POST");
    sendProblem(res, 405, { error: "Only POST is understood here." });
  });
  router.post(
    path,
    createBodyBudget({ maxBodyBytes, maxBytesInFlight }),
    express.raw({ type: () => true, limit: maxBodyBytes, inflate: true }),
    receive,
  );
  router.use(createNotFound("Webhooks come to /webhooks/<forge id>."));
  router.use(createErrorAnswers({ log }));
  return router;
}

async function acceptInTime(accept: Accept, event: GitEvent): Promise<Receipt> {
  const accepted = accept(event);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new QueueUnavailableError(`the queue did not answer within ${acceptWithinMs} ms`)),
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
