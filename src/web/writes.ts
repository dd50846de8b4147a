/**
 * The page's writes. Each requires an authenticated user with the right to do it, comes from the page itself, and is recorded
 * in the audit log, also if it is rejected.
 */
import express, { type Request, type Response, type Router } from "express";
import { rateLimit } from "express-rate-limit";
import { z } from "zod";
import { QueueUnavailableError, RequestError } from "../errors.ts";
import type { Receipt } from "../model/receipt.ts";
import type { Key } from "../model.ts";
import { type Action, actions } from "../requests/actions.ts";
import { sendProblem } from "../../routes/errors.ts";
import type { Access, PageAccess } from "./access.ts";
import type { FindSight } from "./sight.ts";

/** A write, for the audit log: names only. */
export interface PageWrite {
  readonly action: Action | "replay" | "retry" | "login";
  /** `refused`: not allowed, or not applicable. `failed`: any other error. */
  readonly result: "ok" | "refused" | "failed";
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly forge?: string | undefined;
  readonly delivery?: string | undefined;
  readonly lane?: string | undefined;
  readonly subject?: string | undefined;
  /** The user's name, unless the page token was used. */
  readonly person?: string | undefined;
  /** How the user was authenticated; `none`: not at all. */
  readonly login: Access["by"] | "none";
  readonly role?: Access["role"];
  /** The address of the connection. */
  readonly address: string;
  /** The client's address according to the request's headers. */
  readonly forwardedFor?: string | undefined;
  /** The impersonated user, if the request was not made as the server. */
  readonly actedAs?: string | undefined;
  /** Identifies the request; also in the audit line of its result. */
  readonly request?: string | undefined;
  readonly approved?: string | undefined;
  /** The response status. */
  readonly status: number;
  readonly why?: string | undefined;
}

export interface Possible {
  readonly may: boolean;
  /** Why not, as a sentence. */
  readonly why?: string | undefined;
  /** The hash of the change that is waiting for approval. */
  readonly hash?: string | undefined;
}

export type PossibleActions = Readonly<Record<Action, Possible>>;

export interface Asked {
  readonly request?: string | undefined;
  readonly actedAs?: string | undefined;
}

/** Every obstacle is thrown as a RequestError. */
export interface PageActions {
  possible(key: Key, caller: Access): Promise<PossibleActions>;
  /** `onRequest` is called with what is known before the request to the cluster. */
  act(
    key: Key,
    wanted: { action: Action; hash?: string | undefined },
    caller: Access,
    onRequest: (asked: Asked) => void,
  ): Promise<void>;
  /** Both check with the cluster that the user is allowed to change each affected deployment. */
  replay(forge: string, delivery: string, caller: Access, onRequest: (asked: Asked) => void): Promise<Receipt>;
  retry(
    lane: string,
    subject: string,
    caller: Access,
    onRequest: (asked: Asked) => void,
  ): Promise<{ readonly queued: boolean }>;
}

export interface PageWritesDeps {
  readonly access: PageAccess;
  readonly actions: PageActions;
  readonly sight: FindSight;
  readonly audit: (write: PageWrite) => void;
  readonly now: () => number;
  readonly keyOf: (req: Request) => Key;
  /** Unauthenticated writes per address and minute that are logged; further ones are not. */
  readonly mostAnonymous?: number | undefined;
}

const Wanted = z.object({ action: z.enum(actions), hash: z.string().min(1).max(200).optional() });
const Retry = z.object({ subject: z.string().min(1).max(1_000) });

type What = Partial<Pick<PageWrite, "namespace" | "name" | "forge" | "delivery" | "lane" | "subject" | "approved">> &
  Asked & { action: PageWrite["action"] };

/** Mounted under `/api`, before the handler that rejects requests without access. */
export function createPageWrites(deps: PageWritesDeps): Router {
  const { access, actions: does, sight, audit, now, keyOf, mostAnonymous = 30 } = deps;
  const router = express.Router();
  const body = express.json({ limit: "4kb" });

  function record(
    req: Request,
    what: What,
    caller: Access | undefined,
    came: Pick<PageWrite, "result" | "status" | "why">,
  ) {
    audit({ ...what, ...came, ...senderOf(req, caller) });
  }

  const limitAnonymous = rateLimit({
    windowMs: 60_000,
    limit: mostAnonymous,
    legacyHeaders: false,
    standardHeaders: "draft-8",
    validate: { xForwardedForHeader: false, forwardedHeader: false },
    skip: (_req, res) => callerOf(res) !== undefined,
    handler: (_req, res) =>
      sendProblem(res, 429, { error: "Too many unauthorized write requests.", hint: "Log in first." }),
  });

  /** Performs the write if it is allowed, responds, and records the result. */
  const write =
    (describe: (req: Request) => What, act: (req: Request, caller: Access, what: What) => Promise<[number, unknown]>) =>
    async (req: Request, res: Response): Promise<void> => {
      const caller = callerOf(res);
      // Limits what a client can put into a log line.
      const what = describe(req);
      try {
        const [status, answer] = await act(req, mayWrite(req, caller), what);
        record(req, what, caller, { result: "ok", status });
        res.status(status).json(answer);
      } catch (error) {
        const status =
          error instanceof RequestError ? error.status : error instanceof QueueUnavailableError ? 503 : 500;
        const why = error instanceof RequestError ? error.message.slice(0, 500) : undefined;
        record(req, what, caller, { result: status < 500 ? "refused" : "failed", status, why });
        throw error;
      }
    };

  function mayWrite(req: Request, caller: Access | undefined): Access {
    if (caller === undefined)
      throw new RequestError(
        401,
        "This requires a login.",
        "Log in, or send the page token as `Authorization: Bearer …`.",
      );
    if (!isSameSite(req)) throw new RequestError(403, "This request comes from another site.");
    if (!access.hasProof(req, caller))
      throw new RequestError(
        403,
        "The request has no valid CSRF token.",
        "Reload the page. A program has to send the `csrf` value of /api/access in the header x-towline-csrf.",
      );
    if (caller.role !== "operator") throw new RequestError(403, ...whyNotOperator(caller));
    return caller;
  }

  /** Deployments that the user cannot see are treated as missing. */
  async function seen({ namespace }: Key, caller: Access): Promise<void> {
    if (!(await sight(caller))(namespace)) throw new RequestError(404, "There is no KluctlDeployment with this name.");
  }

  router.post(
    "/deployments/:namespace/:name/actions",
    limitAnonymous,
    body,
    write(
      (req) => {
        const { data } = Wanted.safeParse(req.body);
        return {
          action: data?.action ?? "reconcile",
          ...keyOf(req),
          ...(data?.hash !== undefined && { approved: data.hash }),
        };
      },
      async (req, caller, what) => {
        const { data } = Wanted.safeParse(req.body);
        if (data === undefined)
          throw new RequestError(
            400,
            "Unknown action.",
            `Send JSON: {"action": "…"} with one of ${actions.join(", ")}.`,
          );
        await seen(keyOf(req), caller);
        await does.act(keyOf(req), data, caller, (asked) => Object.assign(what, asked));
        return [202, { action: data.action, at: now() }];
      },
    ),
  );
  router.get("/deployments/:namespace/:name/actions", async (req, res, next) => {
    const caller = callerOf(res);
    if (caller?.role === undefined) return next(); // is rejected there
    await seen(keyOf(req), caller);
    res.json(await does.possible(keyOf(req), caller));
  });
  router.post(
    "/deliveries/:forge/:delivery/replay",
    limitAnonymous,
    write(
      (req) => ({ action: "replay", forge: textOf(req, "forge"), delivery: textOf(req, "delivery") }),
      async (req, caller, what) => [
        200,
        await does.replay(textOf(req, "forge"), textOf(req, "delivery"), caller, (asked) => Object.assign(what, asked)),
      ],
    ),
  );
  router.post(
    "/queue/:lane/retry",
    limitAnonymous,
    body,
    write(
      (req) => ({ action: "retry", lane: textOf(req, "lane"), subject: Retry.safeParse(req.body).data?.subject }),
      async (req, caller, what) => {
        const { data } = Retry.safeParse(req.body);
        if (data === undefined)
          throw new RequestError(400, 'Name the job to retry: {"subject": "…"}, as listed by /api/queue.');
        const lane = textOf(req, "lane");
        const retried = await does.retry(lane, data.subject, caller, (asked) => Object.assign(what, asked));
        return [202, { lane, subject: data.subject, ...retried }];
      },
    ),
  );
  return router;
}

/** The sender, for the audit log. */
export function senderOf(req: Request, caller: Access | undefined) {
  return {
    person: caller?.name,
    login: caller?.by ?? ("none" as const),
    role: caller?.role,
    address: req.socket.remoteAddress ?? "",
    forwardedFor: req.get("x-forwarded-for")?.slice(0, 200),
  };
}

/** Determined once for each request under `/api`. */
export function callerOf(res: Response): Access | undefined {
  return res.locals["access"] as Access | undefined;
}

/** Prevents other sites from sending requests in a user's name: browsers declare a request's origin. */
export function isSameSite(req: Request): boolean {
  const from = req.get("sec-fetch-site") ?? "same-origin";
  return from === "same-origin" || from === "none";
}

/** Explains how to get write access. */
export function whyNotOperator({ by, name = "" }: Access): [error: string, hint: string] {
  return by === "token" || by === "session"
    ? ["The page token is read-only.", "Set page.tokenRole to operator, or log in with an account."]
    : [`${name} has read-only access.`, "None of your groups is in page.operatorGroups."];
}

function textOf(req: Request, name: string): string {
  return String(req.params[name]).slice(0, 300);
}
