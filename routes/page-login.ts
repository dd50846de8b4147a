/** Logging in at an identity provider: there, and back again. What a browser shows in between is a few words at most. */
import { type Request, type Response, Router } from "express";
import { rateLimit } from "express-rate-limit";
import { RequestError } from "../src/errors.ts";
import type { Logger } from "../src/log.ts";
import { cookieOf, ownCookie, type PageAccess, type SessionSeal } from "./page-access.ts";
import { type PageWrite, senderOf } from "./page-writes.ts";

/** See src/login/oidc.ts. */
export interface LoginProvider {
  /** `anew`: they are asked who they are, even if that is known there. */
  begin(anew: boolean): Promise<{ readonly url: string; readonly flow: unknown }>;
  /** `flow`: as `begin` gave it, or whatever else came out of the cookie. */
  finish(
    query: string,
    flow: unknown,
  ): Promise<{ readonly name: string; readonly groups: readonly string[]; readonly idToken: string }>;
  /** Where somebody logs out there, if that can be had. */
  leave(idToken: string | undefined): Promise<string | undefined>;
}

export interface PageLoginDeps {
  readonly access: PageAccess;
  /** Absent: there is none. */
  readonly provider?: { readonly oidc: LoginProvider; readonly seal: SessionSeal } | undefined;
  readonly audit: (write: PageWrite) => void;
  readonly log: Logger;
  readonly now: () => number;
  /** How often one address may come within a minute; behind one proxy all people share it. */
  readonly mostLogins?: number | undefined;
}

const flowCookie = "towline-login";
/** To find the password and the second factor. */
const flowMs = 10 * 60_000;
/** Says to the provider whose session ends; sent along with nothing but the end. */
const leavingCookie = "towline-leaving";
const leavingPath = "/api/logout";
/** Browsers keep cookies of 4 KB, and sealing makes a third more of it. */
const longestIdToken = 2_700;
/** Longer than sessions are, here and there. */
const leavingMs = 24 * 3_600_000;

export function createPageLogin({ access, provider, audit, log, now, mostLogins = 600 }: PageLoginDeps): Router {
  const router = Router();
  router.use(
    rateLimit({
      windowMs: 60_000,
      limit: mostLogins,
      legacyHeaders: false,
      standardHeaders: "draft-8",
      validate: { xForwardedForHeader: false, forwardedHeader: false },
      handler: (_req, res) =>
        tellPerson(res, 429, "Too many logins from this address.", "Wait a minute and try again."),
    }),
    (_req, res, next) => {
      res.set("Cache-Control", "no-store");
      next();
    },
  );

  // The answer comes from another site, so that this cookie has to come along with it.
  const flowOptions = (req: Request) => ({ ...ownCookie(req), sameSite: "lax", path: "/auth" }) as const;

  function open() {
    if (provider === undefined)
      throw new RequestError(404, "No identity provider is configured.", "Set ui.oidc in the server's configuration.");
    return provider;
  }

  router.get("/login", (req, res) =>
    told(res, async () => {
      const { oidc, seal } = open();
      const { url, flow } = await oidc.begin(req.query["anew"] !== undefined);
      res.cookie(flowCookie, await seal.close("login", { flow, place: placeOf(req) }, now() + flowMs), {
        ...flowOptions(req),
        maxAge: flowMs,
      });
      res.redirect(303, url);
    }),
  );

  router.get("/callback", (req, res) =>
    told(res, async () => {
      const { oidc, seal } = open();
      // Whoever has logged out at the provider is sent here, too.
      if (req.query["code"] === undefined && req.query["error"] === undefined) return res.redirect(303, "/");
      const opened = await seal.open("login", cookieOf(req, flowCookie) ?? "");
      res.clearCookie(flowCookie, flowOptions(req));
      if (opened === undefined)
        throw new RequestError(400, "This login was not started in this browser, or took too long.", "Log in again.");
      const { flow, place } = opened.content as { flow: unknown; place: string };
      const query = req.originalUrl.includes("?") ? req.originalUrl.slice(req.originalUrl.indexOf("?")) : "";
      let person: Awaited<ReturnType<LoginProvider["finish"]>>;
      try {
        person = await oidc.finish(query, flow);
      } catch (error) {
        const { status = 500, message } = error as Error & { status?: number };
        if (error instanceof RequestError)
          audit({
            action: "login",
            result: status < 500 ? "refused" : "failed",
            ...senderOf(req, undefined),
            status,
            why: message,
          });
        throw error;
      }
      const { role, groupsLeftOut } = await access.startNamedSession(req, res, person);
      const sender = { ...senderOf(req, undefined), login: "oidc" as const, person: person.name, role };
      if (role === undefined) {
        audit({
          action: "login",
          result: "refused",
          ...sender,
          status: 403,
          why: "none of the user's groups has access",
        });
        throw new RequestError(
          403,
          `You are logged in as ${person.name}, but none of your groups has access to this page.`,
          "ui.viewerGroups and ui.operatorGroups in the server's configuration list the groups that have access.",
        );
      }
      const options = { ...ownCookie(req), path: leavingPath };
      if (person.idToken.length > longestIdToken)
        res.clearCookie(leavingCookie, options); // of somebody before
      else {
        const sealed = await seal.close("logout", person.idToken, now() + leavingMs);
        res.cookie(leavingCookie, sealed, { ...options, maxAge: leavingMs });
      }
      audit({ action: "login", result: "asked", ...sender, status: 303 });
      if (groupsLeftOut > 0)
        log.warn(
          { person: person.name, groups: person.groups.length, groupsLeftOut },
          "session cookie too small for all groups of the user: kept only those named in ui.viewerGroups and ui.operatorGroups",
        );
      res.redirect(303, `/${place}`);
    }),
  );
  router.get("/style.css", (_req, res) => void res.type("css").send(style));
  router.use((_req, res) => tellPerson(res, 404, "Not found.", "The page is at /."));
  return router;

  async function told(res: Response, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (res.headersSent) return void res.destroy();
      if (error instanceof RequestError) return tellPerson(res, error.status, error.message, error.hint);
      log.error({ err: error }, "login failed");
      tellPerson(res, 500, "Internal server error.", "See the server's log.");
    }
  }
}

/** Ends the session here, and says where to end the one at the identity provider, if that is where it came from. */
export function createLogout({ access, provider }: Pick<PageLoginDeps, "access" | "provider">) {
  return async function logout(req: Request, res: Response): Promise<void> {
    const caller = await access.find(req);
    access.endSession(req, res);
    const sealed = cookieOf(req, leavingCookie);
    if (sealed !== undefined) res.clearCookie(leavingCookie, { ...ownCookie(req), path: leavingPath });
    const opened = await provider?.seal.open("logout", sealed ?? "");
    const { content } = opened ?? {};
    const idToken = typeof content === "string" ? content : undefined;
    // A session may be over here and go on there.
    const came = caller?.by === "oidc" || idToken !== undefined;
    const leave = came ? await provider?.oidc.leave(idToken) : undefined;
    if (leave === undefined) res.status(204).end();
    else res.json({ leave });
  };
}

/** Where on the page somebody wanted to be. Never another site: it begins with what only the page reads. */
function placeOf(req: Request): string {
  const { then } = req.query;
  return typeof then === "string" && /^#\/[\x21-\x7e]{0,500}$/.test(then) ? then : "";
}

function tellPerson(res: Response, status: number, error: string, hint = ""): void {
  const other = status === 403 ? asSomebodyElse : "";
  res
    .status(status)
    .type("html")
    .send(
      `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Towline</title><link rel="stylesheet" href="/auth/style.css"></head>` +
        `<body><main><h1>${plain(error)}</h1><p>${plain(hint)}</p><p><a href="/">Back to the page</a>${other}</p></main></body></html>`,
    );
}

/** What the provider knows of somebody it goes on knowing: without being asked anew, they would be sent back here at once. */
const asSomebodyElse = ` · <a href="/auth/login?anew">Log in as another user</a>`;

const style = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 36rem; margin: 15vh auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
`;

function plain(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
