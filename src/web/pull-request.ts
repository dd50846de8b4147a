/**
 * One pull request, for users who may see its deployments, and for those who come from its comment: the link there is
 * signed, expires, and opens nothing else.
 */
import { hash } from "node:crypto";
import type { NextFunction, Request, Response } from "express";
import { RequestError } from "../errors.ts";
import type { PullRequestKey } from "../model.ts";
import type { LinkState } from "../reporting/page-link.ts";
import type { LoginMethods, PageAccess } from "./access.ts";
import type { PageFacts, PageManifests, PagePullRequestDetails } from "./facts.ts";
import { limitReport, type Sees } from "./sight.ts";
import { callerOf } from "./writes.ts";

export interface PullRequestRoutesDeps {
  readonly facts: Pick<PageFacts, "pullRequest" | "manifests">;
  readonly access: Pick<PageAccess, "logins">;
  /** Absent: there are no links. */
  readonly links?:
    | {
        check(key: PullRequestKey, text: string): LinkState;
        /** A link is sufficient only for users who are logged in. */
        needsLogin(): boolean;
      }
    | undefined;
  readonly seesOf: (res: Response) => Sees;
  readonly loginHint: (logins: LoginMethods) => string;
}

/** Not part of the address: it stays out of the logs of proxies. */
const linkHeader = "x-towline-link";

export function createPullRequestRoutes({ facts, access, links, seesOf, loginHint }: PullRequestRoutesDeps) {
  async function find(key: PullRequestKey) {
    const report = await facts.pullRequest(key);
    if (report === undefined) throw new RequestError(404, "There is no preview of this pull request.", howLongKept);
    return report;
  }

  /** What a request with a link is allowed to read; `undefined`: it is left to the caller's own access. */
  function checkLink(res: Response, key: PullRequestKey, text: string): { readonly until: number } | undefined {
    const caller = callerOf(res);
    const { state, until } = links?.check(key, text) ?? ({ state: "invalid" } as const);
    const needsLogin = links?.needsLogin() ?? true;
    if (state === "valid" && (caller?.role !== undefined || !needsLogin)) return { until };
    if (caller !== undefined) return undefined;
    throw new LinkRefused(
      state === "valid"
        ? "This link requires a login."
        : state === "expired"
          ? "This link has expired. The pull request's comment gets a new one with its next preview."
          : "This link is not valid. Open the one in the pull request's comment.",
    );
  }

  /** Runs `read` for users with a valid link; leaves the others to their own access. */
  const byLink =
    (read: (req: Request, res: Response, key: PullRequestKey, link: { readonly until: number }) => Promise<void>) =>
    async (req: Request, res: Response, next: NextFunction): Promise<void> => {
      const text = req.get(linkHeader);
      if (text === undefined) return next();
      const key = pullRequestOf(req);
      try {
        const link = checkLink(res, key, text);
        if (link === undefined) return next();
        await read(req, res, key, link);
      } catch (error) {
        if (!(error instanceof LinkRefused)) throw error;
        const logins = access.logins();
        const hint = logins.token || logins.oidc ? "Users with access to this page can log in." : loginHint(logins);
        res.status(401).json({ error: error.message, hint, byToken: logins.token, logins });
      }
    };

  async function sendManifests(req: Request, res: Response, key: PullRequestKey, deployment: string): Promise<void> {
    const found = await facts.manifests(key, deployment);
    if (found === undefined) throw new RequestError(404, "No manifests are stored for this deployment.", whyNone);
    send(req, res, found);
  }

  return {
    path: "/api/pull-requests/:forge/*repo/:number",
    manifestsPath: "/api/manifests/:forge/*repo/:number",
    byLink: byLink(async (req, res, key, link) => send(req, res, { ...(await find(key)), link })),
    /** Shows what the pull request's page shows, too. */
    manifestsByLink: byLink((req, res, key) => sendManifests(req, res, key, deploymentOf(req))),

    async byLogin(req: Request, res: Response): Promise<void> {
      const report = limitReport(await find(pullRequestOf(req)), seesOf(res));
      if (report === undefined) throw new RequestError(404, "There is no preview of this pull request.", howLongKept);
      send(req, res, report);
    },

    async manifestsByLogin(req: Request, res: Response): Promise<void> {
      const deployment = deploymentOf(req);
      const [namespace = ""] = deployment.split("/", 1);
      if (!seesOf(res)(namespace)) throw new RequestError(404, "No manifests are stored for this deployment.", whyNone);
      await sendManifests(req, res, pullRequestOf(req), deployment);
    },
  };
}

/** The link does not open the page for this caller, who has no other access. */
class LinkRefused extends Error {
  override name = "LinkRefused";
}

function deploymentOf(req: Request): string {
  const { deployment } = req.query;
  return typeof deployment === "string" ? deployment : "";
}

const whyNone = "They are stored with a preview that was made since the page was enabled.";
const howLongKept = "Previews are kept for 30 days.";

/** Answers 304 if the caller has it already: the page asks again and again. */
function send(req: Request, res: Response, details: PagePullRequestDetails | PageManifests): void {
  const body = JSON.stringify(details);
  const tag = `"${hash("sha256", body, "base64url")}"`;
  res.set("ETag", tag);
  // A proxy that compresses the response weakens its tag.
  const known = (req.get("if-none-match") ?? "").split(",").map((one) => one.trim().replace(/^W\//, ""));
  if (known.includes(tag)) res.status(304).end();
  else res.type("json").send(body);
}

/** An invalid key matches no pull request. */
function pullRequestOf(req: Request): PullRequestKey {
  const { forge, repo, number } = req.params;
  const repoName = Array.isArray(repo) ? repo.join("/") : "";
  const isKey = /^[1-9]\d{0,14}$/.test(String(number)) && /^[a-z0-9][-a-z0-9]{0,39}$/.test(String(forge));
  if (!isKey || repoName === "" || repoName.length > 500)
    throw new RequestError(404, "There is no preview of this pull request.", howLongKept);
  return { forge: String(forge), repoName, number: Number(number) };
}
