/**
 * What people may do on the page. Each write is of somebody known who may do it, comes from the page itself, and leaves a
 * line in the audit log, also when it is refused.
 */
import express, { type Request, type Response, type Router } from "express";
import { rateLimit } from "express-rate-limit";
import { z } from "zod";
import { QueueUnavailableError, RequestError } from "../src/errors.ts";
import type { Receipt } from "../src/intake.ts";
import type { Key } from "../src/model.ts";
import { type Action, actions } from "../src/reconcile/actions.ts";
import { sendProblem } from "./errors.ts";
import type { Access, PageAccess } from "./page-access.ts";
import type { FindSight } from "./page-sight.ts";

/** What somebody did, or wanted to do; names only. */
export interface PageWrite {
  readonly action: Action | "replay" | "retry" | "login";
  /** `refused`: they may not, or it made no sense. `failed`: something else was in the way. */
  readonly result: "asked" | "refused" | "failed";
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly forge?: string | undefined;
  readonly delivery?: string | undefined;
  readonly lane?: string | undefined;
  readonly subject?: string | undefined;
  /** Who it was, if anything but the token is known of them. */
  readonly person?: string | undefined;
  /** How they came in; `none`: they did not. */
  readonly login: Access["by"] | "none";
  readonly role?: Access["role"];
  /** Whose connection it was. */
  readonly address: string;
  /** What its headers say of others before it. */
  readonly forwardedFor?: string | undefined;
  /** As whom the cluster was asked, if not as the server. */
  readonly actedAs?: string | undefined;
  /** Names the request, and stands in the line of what came of it. */
  readonly request?: string | undefined;
  readonly approved?: string | undefined;
  /** What was answered. */
  readonly status: number;
  readonly why?: string | undefined;
}

export interface Possible {
  readonly may: boolean;
  /** Why not, for people. */
  readonly why?: string | undefined;
  /** Of what waits for approval. */
  readonly hash?: string | undefined;
}

export type PossibleActions = Readonly<Record<Action, Possible>>;

export interface Asked {
  readonly request?: string | undefined;
  readonly actedAs?: string | undefined;
}

/** Whatever is in the way is thrown as a RequestError. */
export interface PageActions {
  possible(key: Key, caller: Access): Promise<PossibleActions>;
  /** `told` is called with what is known before the cluster is asked. */
  act(
    key: Key,
    wanted: { action: Action; hash?: string | undefined },
    caller: Access,
    told: (asked: Asked) => void,
  ): Promise<void>;
  /** Both ask the cluster whether the caller may ask something of each deployment that it concerns. */
  replay(forge: string, delivery: string, caller: Access, told: (asked: Asked) => void): Promise<Receipt>;
  retry(
    lane: string,
    subject: string,
    caller: Access,
    told: (asked: Asked) => void,
  ): Promise<{ readonly queued: boolean }>;
}

export interface PageWritesDeps {
  readonly access: PageAccess;
  readonly actions: PageActions;
  readonly sight: FindSight;
  readonly audit: (write: PageWrite) => void;
  readonly now: () => number;
  readonly keyOf: (req: Request) => Key;
  /** How many writes of nobody one address may have refused within a minute, before they leave no line any more. */
  readonly mostAnonymous?: number | undefined;
}

const Wanted = z.object({ action: z.enum(actions), hash: z.string().min(1).max(200).optional() });
const Retry = z.object({ subject: z.string().min(1).max(1_000) });

type What = Partial<Pick<PageWrite, "namespace" | "name" | "forge" | "delivery" | "lane" | "subject" | "approved">> &
  Asked & { action: PageWrite["action"] };

/** Below `/api`, before whatever turns away those without access. */
export function createPageWrites(deps: PageWritesDeps): Router {
  const { access, actions: does, sight, audit, now, keyOf, mostAnonymous = 30 } = deps;
  const router = express.Router();
  const body = express.json({ limit: "4kb" });

  function tell(
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

  /** Does it for those who may, and answers and tells what came of it. */
  const write =
    (describe: (req: Request) => What, act: (req: Request, caller: Access, what: What) => Promise<[number, unknown]>) =>
    async (req: Request, res: Response): Promise<void> => {
      const caller = callerOf(res);
      // Whatever was sent, it must not make a line of the log longer than people can read.
      const what = describe(req);
      try {
        const [status, answer] = await act(req, mayWrite(req, caller), what);
        tell(req, what, caller, { result: "asked", status });
        res.status(status).json(answer);
      } catch (error) {
        const status =
          error instanceof RequestError ? error.status : error instanceof QueueUnavailableError ? 503 : 500;
        const why = error instanceof RequestError ? error.message.slice(0, 500) : undefined;
        tell(req, what, caller, { result: status < 500 ? "refused" : "failed", status, why });
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

  /** What somebody does not see is not there for them. */
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
    if (caller?.role === undefined) return next(); // is turned away there
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

/** Who sent it, for the audit log. */
export function senderOf(req: Request, caller: Access | undefined) {
  return {
    person: caller?.name,
    login: caller?.by ?? ("none" as const),
    role: caller?.role,
    address: req.socket.remoteAddress ?? "",
    forwardedFor: req.get("x-forwarded-for")?.slice(0, 200),
  };
}

/** Found once for each request below `/api`. */
export function callerOf(res: Response): Access | undefined {
  return res.locals["access"] as Access | undefined;
}

/** Other sites cannot send what they like in a visitor's name: browsers say where a request comes from. */
export function isSameSite(req: Request): boolean {
  const from = req.get("sec-fetch-site") ?? "same-origin";
  return from === "same-origin" || from === "none";
}

/** What it takes to do more than look. */
export function whyNotOperator({ by, name = "" }: Access): [error: string, hint: string] {
  return by === "token" || by === "session"
    ? ["The page token is read-only.", "Set ui.tokenRole to operator, or log in with an account."]
    : [`${name} has read-only access.`, "None of your groups is in ui.operatorGroups."];
}

function textOf(req: Request, name: string): string {
  return String(req.params[name]).slice(0, 300);
}
