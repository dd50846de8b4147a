/** The page and its API, on a separate port. Everything under `/api` requires access; the rest is only code. */
import express, { type ErrorRequestHandler, type NextFunction, type Request, type Response, Router } from "express";
import { rateLimit } from "express-rate-limit";
import helmet from "helmet";
import { z } from "zod";
import { QueueUnavailableError, RequestError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { createErrorAnswers, createNotFound, sendProblem } from "../../routes/errors.ts";
import type { LoginMethods, PageAccess } from "./access.ts";
import type { PageEvents } from "./events.ts";
import type { PageFacts } from "./facts.ts";
import type { PageLog } from "./log.ts";
import { createLogout, createPageLogin, type PageLoginDeps } from "./login.ts";
import { createPullRequestRoutes, type PullRequestRoutesDeps } from "./pull-request.ts";
import { limitForges, limitPullRequests, limitQueue, limitTrace, seesAll, type Sees } from "./sight.ts";
import { callerOf, createPageWrites, isSameSite, type PageWritesDeps } from "./writes.ts";

export interface PageRoutesDeps
  extends
    Pick<PageWritesDeps, "actions" | "sight" | "audit" | "now" | "mostAnonymous">,
    Pick<PageLoginDeps, "provider" | "mostLogins">,
    Pick<PullRequestRoutesDeps, "links"> {
  readonly facts: PageFacts;
  readonly access: PageAccess;
  readonly events: PageEvents;
  readonly lines: PageLog;
  /** The directory with the built page. */
  readonly assets: string;
  readonly log: Logger;
  /** Invalid tokens per address and minute. */
  readonly mostWrong?: number | undefined;
}

const limitedStreamMs = 5 * 60_000;

const Login = z.object({ token: z.string().max(1_000) });
const name = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export function createPageRoutes(deps: PageRoutesDeps): Router {
  const { facts, access, sight, events, lines, assets, log, now, mostWrong = 10 } = deps;
  const router = Router();
  router.use(securityHeaders, (_req, res, next) => {
    // A link in a comment may become public, and a search engine would keep what it leads to.
    res.set("X-Robots-Tag", "noindex, nofollow");
    next();
  });

  const limited = rateLimit({
    windowMs: 60_000,
    limit: mostWrong,
    skipSuccessfulRequests: true,
    requestWasSuccessful: (_req, res) => res.statusCode !== 401,
    legacyHeaders: false,
    standardHeaders: "draft-8",
    // Forwarded addresses are not trusted: all users behind one proxy share its attempts.
    validate: { xForwardedForHeader: false, forwardedHeader: false },
    handler: (_req, res) =>
      sendProblem(res, 429, { error: "Too many invalid tokens.", hint: "Wait a minute and try again." }),
  });

  router.use("/api", (_req, res, next) => {
    res.set("Cache-Control", "no-store");
    next();
  });
  router.post("/api/login", sameSite, limited, express.json({ limit: "4kb" }), (req, res) => {
    const { data } = Login.safeParse(req.body);
    const { token, oidc } = access.logins();
    if (!token) {
      const hint = oidc ? "Log in at /auth/login." : "Open the page through the proxy that authenticates users.";
      return sendProblem(res, 403, { error: "No page token is configured.", hint });
    }
    if (data === undefined || !access.isToken(data.token.trim()))
      return sendProblem(res, 401, { error: "Invalid token." });
    access.startSession(req, res);
    res.status(204).end();
  });
  router.post("/api/logout", sameSite, createLogout(deps));

  const limitBearers = (req: Request, res: Response, next: NextFunction) =>
    access.hasBearer(req) ? limited(req, res, next) : next();
  router.use("/api", limitBearers, async (req, res, next) => {
    res.locals["access"] = await access.find(req);
    next();
  });
  const pullRequest = createPullRequestRoutes({ ...deps, seesOf, loginHint });
  router.get(pullRequest.manifestsPath, pullRequest.manifestsByLink);
  router.get(pullRequest.path, pullRequest.byLink);
  router.use("/api", createPageWrites({ ...deps, keyOf }));
  router.use("/api", async (req, res, next) => {
    const caller = callerOf(res);
    if (caller?.role !== undefined) {
      if (req.path !== "/access") res.locals["sees"] = await sight(caller);
      return next();
    }
    if (caller !== undefined) {
      const hint = "None of your groups is in page.viewerGroups or page.operatorGroups.";
      return sendProblem(res, 403, { error: `${caller.name} has no access to this page.`, hint });
    }
    const logins = access.logins();
    if (access.hasBearer(req)) {
      const hint = "The token is page.token in the server's configuration, or in the file named by --page-token-file.";
      return void res.status(401).json({ error: "Invalid page token.", hint, byToken: logins.token, logins });
    }
    const hint = loginHint(logins);
    res.status(401).json({ error: "This page requires a login.", hint, byToken: logins.token, logins });
  });
  router.get("/api/access", (req, res) => {
    const caller = callerOf(res)!;
    const { by, name, groups, role } = caller;
    const named = name === undefined ? {} : { name, groups };
    res.json({ by, ...named, role, csrf: access.proofFor(req, res, caller), logins: access.logins() });
  });

  /** Deployments that the user cannot see are treated as missing. */
  const seenKeyOf = (req: Request, res: Response) => {
    const key = keyOf(req);
    if (!seesOf(res)(key.namespace)) throw new RequestError(404, "There is no KluctlDeployment with this name.");
    return key;
  };
  router.get("/api/deployments", (_req, res) => {
    res.json(facts.deployments().filter(({ namespace }) => seesOf(res)(namespace)));
  });
  router.get("/api/newer-commits", async (_req, res) => {
    res.json((await facts.newerCommits()).filter(({ namespace }) => seesOf(res)(namespace)));
  });
  router.get("/api/deployments/:namespace/:name", async (req, res) => {
    const details = await facts.details(seenKeyOf(req, res));
    if (details === undefined) throw new RequestError(404, "There is no KluctlDeployment with this name.");
    res.json(details);
  });
  router.get("/api/deployments/:namespace/:name/results/:id", async (req, res) => {
    const result = await facts.result(seenKeyOf(req, res), String(req.params["id"]));
    if (result === undefined) throw new RequestError(404, "This result is not stored, or was removed.");
    res.json(result);
  });
  router.get("/api/deliveries", async (req, res) => {
    const forges = limitForges(await facts.forges(), seesOf(res));
    const newest = req.query["newest"] !== undefined;
    res.json(newest ? forges.map((forge) => ({ ...forge, deliveries: forge.deliveries.slice(0, 1) })) : forges);
  });
  router.get("/api/pull-requests", async (_req, res) => {
    res.json(limitPullRequests(await facts.pullRequests(), seesOf(res)));
  });
  router.get(pullRequest.manifestsPath, pullRequest.manifestsByLogin);
  router.get(pullRequest.path, pullRequest.byLogin);
  router.get("/api/queue", async (_req, res) => {
    res.json(limitQueue(await facts.queue(), seesOf(res)));
  });
  router.get("/api/notifications", async (_req, res) => {
    // A message is about deployments of any namespace.
    if (seesOf(res) !== seesAll)
      throw new RequestError(403, "Notifications are shown to users who may see all namespaces.");
    res.json(await facts.notifications());
  });
  router.get("/api/trace/:commit", async (req, res) => {
    const commit = String(req.params["commit"]).toLowerCase();
    if (!/^[0-9a-f]{7,64}$/.test(commit))
      throw new RequestError(400, "Not a commit hash: enter at least seven of its hexadecimal characters.");
    res.json(limitTrace(await facts.trace(commit), seesOf(res)));
  });
  const openStream = (res: Response, open: (until: number) => boolean) => {
    // Access can change: a stream ends after a time, and the client reconnects and is checked again.
    const most = seesOf(res) === seesAll ? Infinity : now() + limitedStreamMs;
    if (open(Math.min(callerOf(res)?.until ?? now(), most))) return;
    res.set("Retry-After", "30");
    sendProblem(res, 503, { error: "Too many pages are open.", hint: "Close one, or try again later." });
  };
  router.get("/api/events", (_req, res) => openStream(res, (until) => events.open(res, until, seesOf(res))));
  router.get("/api/deployments/:namespace/:name/log", (req, res) => {
    const key = seenKeyOf(req, res);
    openStream(res, (until) => lines.open(res, key, until));
  });
  router.use("/api", createNotFound("docs/page.md lists the API's paths."));

  router.use("/auth", createPageLogin(deps));

  // Asset names contain a hash of their content; the page itself is revalidated each time.
  router.use("/assets", express.static(`${assets}/assets`, { immutable: true, maxAge: "365d", index: false }));
  router.get("/", (_req, res, next) => {
    res.set("Cache-Control", "no-cache");
    res.sendFile("index.html", { root: assets }, (error?: Error & { status?: number }) => {
      if (error?.status === 404)
        sendProblem(res, 503, {
          error: "The page has not been built.",
          hint: "Run `npm run build`. The API is available.",
        });
      else if (error) next(error);
    });
  });
  router.use(createNotFound("The page is at /, its API under /api."));
  router.use(answerForgetful, createErrorAnswers({ log }));
  return router;
}

const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      connectSrc: ["'self'"],
      imgSrc: ["'self'", "data:"],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
  },
  frameguard: { action: "deny" },
  referrerPolicy: { policy: "no-referrer" },
  // TLS is the responsibility of the proxy in front.
  strictTransportSecurity: false,
});

/** Without Redis some data is missing; its connection logs the error. */
const answerForgetful: ErrorRequestHandler = (error: unknown, _req, res, next) => {
  if (!(error instanceof QueueUnavailableError) || res.headersSent) return next(error);
  sendProblem(res, 503, { error: "Redis does not respond.", hint: "The data stored there is shown once it does." });
};

function loginHint({ token, oidc }: LoginMethods): string {
  if (token) return "Log in, or send the page token as `Authorization: Bearer …`.";
  return oidc ? "Log in at /auth/login." : "Open the page through the proxy that authenticates users.";
}

function seesOf(res: Response): Sees {
  return (res.locals["sees"] as Sees | undefined) ?? (() => false);
}

function sameSite(req: Request, res: Response, next: NextFunction): void {
  if (isSameSite(req)) next();
  else sendProblem(res, 403, { error: "This request comes from another site." });
}

/** An invalid name matches no deployment. */
function keyOf(req: Request): { namespace: string; name: string } {
  const [namespace, own] = [String(req.params["namespace"]), String(req.params["name"])];
  if (!name.test(namespace) || !name.test(own))
    throw new RequestError(404, "There is no KluctlDeployment with this name.");
  return { namespace, name: own };
}
