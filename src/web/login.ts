/** Login at an identity provider: the redirect to it and back, and plain pages for errors. */
import { type Request, type Response, Router } from "express";
import { rateLimit } from "express-rate-limit";
import { RequestError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { cookieOf, ownCookie, type PageAccess, type SessionSeal } from "./access.ts";
import { type PageWrite, senderOf } from "./writes.ts";

/** See src/login/oidc.ts. */
export interface LoginProvider {
  /** `switchUser`: the provider asks for credentials even if it has a session. */
  begin(switchUser: boolean): Promise<{ readonly url: string; readonly flow: unknown }>;
  /** `flow`: the value from `begin`, or anything else that was in the cookie. */
  finish(
    query: string,
    flow: unknown,
  ): Promise<{ readonly name: string; readonly groups: readonly string[]; readonly idToken: string }>;
  /** The provider's logout URL, if it has one. */
  leave(idToken: string | undefined): Promise<string | undefined>;
}

export interface PageLoginDeps {
  readonly access: PageAccess;
  /** Absent: no identity provider is configured. */
  readonly provider?: { readonly oidc: LoginProvider; readonly seal: SessionSeal } | undefined;
  readonly audit: (write: PageWrite) => void;
  readonly log: Logger;
  readonly now: () => number;
  /** Logins per address and minute; all users behind one proxy share the limit. */
  readonly mostLogins?: number | undefined;
}

const flowCookie = "towline-login";
/** Time for entering the password and the second factor. */
const flowMs = 10 * 60_000;
/** Identifies the provider's session at logout; only sent with the logout. */
const leavingCookie = "towline-leaving";
const leavingPath = "/api/logout";
/** Browsers store cookies of up to 4 KB, and sealing adds a third. */
const longestIdToken = 2_700;
/** Longer than sessions on either side. */
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

  // The response comes from another site, and this cookie must be sent with it.
  const flowOptions = (req: Request) => ({ ...ownCookie(req), sameSite: "lax", path: "/auth" }) as const;

  function open() {
    if (provider === undefined)
      throw new RequestError(
        404,
        "No identity provider is configured.",
        "Set page.oidc in the server's configuration.",
      );
    return provider;
  }

  router.get("/login", (req, res) =>
    answering(res, async () => {
      const { oidc, seal } = open();
      const { url, flow } = await oidc.begin(req.query["switch"] !== undefined);
      res.cookie(flowCookie, await seal.close("login", { flow, place: placeOf(req) }, now() + flowMs), {
        ...flowOptions(req),
        maxAge: flowMs,
      });
      res.redirect(303, url);
    }),
  );

  router.get("/callback", (req, res) =>
    answering(res, async () => {
      const { oidc, seal } = open();
      // The provider also redirects here after a logout.
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
          "page.viewerGroups and page.operatorGroups in the server's configuration list the groups that have access.",
        );
      }
      const options = { ...ownCookie(req), path: leavingPath };
      if (person.idToken.length > longestIdToken)
        res.clearCookie(leavingCookie, options); // of a previous user
      else {
        const sealed = await seal.close("logout", person.idToken, now() + leavingMs);
        res.cookie(leavingCookie, sealed, { ...options, maxAge: leavingMs });
      }
      audit({ action: "login", result: "ok", ...sender, status: 303 });
      if (groupsLeftOut > 0)
        log.warn(
          { person: person.name, groups: person.groups.length, groupsLeftOut },
          "session cookie too small for all groups of the user: kept only those named in page.viewerGroups and page.operatorGroups",
        );
      res.redirect(303, `/${place}`);
    }),
  );
  router.get("/style.css", (_req, res) => void res.type("css").send(style));
  router.use((_req, res) => tellPerson(res, 404, "Not found.", "The page is at /."));
  return router;

  async function answering(res: Response, work: () => Promise<void>): Promise<void> {
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

/** Ends the session here, and returns the identity provider's logout URL if the session came from there. */
export function createLogout({ access, provider }: Pick<PageLoginDeps, "access" | "provider">) {
  return async function logout(req: Request, res: Response): Promise<void> {
    const caller = await access.find(req);
    access.endSession(req, res);
    const sealed = cookieOf(req, leavingCookie);
    if (sealed !== undefined) res.clearCookie(leavingCookie, { ...ownCookie(req), path: leavingPath });
    const opened = await provider?.seal.open("logout", sealed ?? "");
    const { content } = opened ?? {};
    const idToken = typeof content === "string" ? content : undefined;
    // A session may have ended here while the provider's continues.
    const came = caller?.by === "oidc" || idToken !== undefined;
    const leave = came ? await provider?.oidc.leave(idToken) : undefined;
    if (leave === undefined) res.status(204).end();
    else res.json({ leave });
  };
}

/** The view to return to. It cannot lead to another site, because it starts with `#`. */
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

/** Forces the provider to ask for credentials; otherwise it would log in the same user again immediately. */
const asSomebodyElse = ` · <a href="/auth/login?switch">Log in as another user</a>`;

const style = `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 36rem; margin: 15vh auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
`;

function plain(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
