/**
 * Authentication and roles on the page: by the page token (as a header, or as a session created with it), by a proxy that
 * authenticates users, or by an identity provider. A session is stored entirely in its cookie, so that every replica
 * accepts it.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import { z } from "zod";
import { RequestError } from "../errors.ts";

export type Role = "viewer" | "operator";

/** See src/login/seal.ts. */
export interface SessionSeal {
  close(purpose: string, content: unknown, until: number): Promise<string>;
  open(purpose: string, text: string): Promise<{ readonly content: unknown; readonly until: number } | undefined>;
}

export interface PageAccessDeps {
  readonly token?: string | undefined;
  /** The role of the token. */
  readonly tokenRole?: Role | undefined;
  readonly proxy?:
    | {
        readonly header: string;
        readonly groupsHeader?: string | undefined;
        isProxy(address: string): boolean;
        /** A secret that the proxy sends; absent: its address is sufficient. */
        readonly secret?: { readonly header: string; readonly value: string } | undefined;
      }
    | undefined;
  /** Sessions of users of the identity provider; absent: none is configured. */
  readonly oidc?: { readonly seal: SessionSeal; readonly sessionMs: number } | undefined;
  /** `*` matches every authenticated user with a name. */
  readonly viewerGroups: readonly string[];
  readonly operatorGroups: readonly string[];
  readonly now: () => number;
}

export interface Access {
  /** When this access expires, epoch milliseconds. */
  readonly until: number;
  readonly by: "token" | "session" | "proxy" | "oidc";
  /** The user's name; absent for the page token. */
  readonly name?: string | undefined;
  readonly groups: readonly string[];
  /** `undefined`: authenticated, but without any access. */
  readonly role: Role | undefined;
}

export interface LoginMethods {
  readonly token: boolean;
  readonly oidc: boolean;
}

export interface PageAccess {
  /** `undefined` if the request is not authenticated. */
  find(req: Request): Promise<Access | undefined>;
  /** The ways to log in that the page itself offers. */
  logins(): LoginMethods;
  isToken(text: string): boolean;
  /** Whether the request has a bearer token. */
  hasBearer(req: Request): boolean;
  startSession(req: Request, res: Response): void;
  /** Starts the session of a user of the identity provider. Returns the user's role. */
  startNamedSession(
    req: Request,
    res: Response,
    person: Pick<Access, "groups"> & { name: string },
  ): Promise<NamedSession>;
  endSession(req: Request, res: Response): void;
  /**
   * Returns the CSRF token that a write must send, which another site can neither read nor guess; `undefined` if none is
   * needed, because browsers do not send bearer tokens on their own. Sets the cookie that it belongs to, if missing.
   */
  proofFor(req: Request, res: Response, access: Access): string | undefined;
  hasProof(req: Request, access: Access): boolean;
}

export interface NamedSession {
  readonly role: Role | undefined;
  /** The number of groups that did not fit into the session. */
  readonly groupsLeftOut: number;
}

const proofHeader = "x-towline-csrf";
const sessionCookie = "towline-session";
/** For users without one of our sessions. */
const proofCookie = "towline-proof";
const sessionMs = 12 * 3_600_000;
/** After this time, a stream without a session is authenticated again. */
const elseMs = 3_600_000;
/** Browsers store cookies of up to 4 KB, and encoding adds a third. */
const mostGroupsBytes = 2_200;

const NamedPerson = z.object({ name: z.string().min(1), groups: z.array(z.string()) });

export function createPageAccess(deps: PageAccessDeps): PageAccess {
  const { token, tokenRole = "viewer", proxy, oidc, viewerGroups, operatorGroups, now } = deps;
  const proofOf = (what: string) =>
    createHmac("sha256", token ?? "")
      .update(`towline page ${what}`)
      .digest();
  const expected = proofOf("token");

  /** Compares in constant time, regardless of content and length. */
  function isToken(text: string): boolean {
    const given = createHmac("sha256", text).update("towline page token").digest();
    return timingSafeEqual(given, expected) && token !== undefined;
  }

  function roleOf(groups: readonly string[]): Role | undefined {
    const isIn = (list: readonly string[]) => list.includes("*") || groups.some((group) => list.includes(group));
    if (isIn(operatorGroups)) return "operator";
    return isIn(viewerGroups) ? "viewer" : undefined;
  }

  function isSession(value: string): number | undefined {
    const [, until = "", proof = ""] = /^(\d{1,15})\.([A-Za-z0-9_-]{43})$/.exec(value) ?? [];
    if (token === undefined || until === "" || Number(until) <= now()) return undefined;
    return timingSafeEqual(Buffer.from(proof, "base64url"), proofOf(`session ${until}`)) ? Number(until) : undefined;
  }

  async function findNamed(value: string): Promise<Access | undefined> {
    const opened = await oidc?.seal.open("session", value);
    const { data } = NamedPerson.safeParse(opened?.content);
    if (opened === undefined || data === undefined) return undefined;
    return { until: opened.until, by: "oidc", ...data, role: roleOf(data.groups) };
  }

  function isFromProxy(req: Request): boolean {
    if (!proxy?.isProxy(req.socket.remoteAddress ?? "")) return false;
    const { secret } = proxy;
    return secret === undefined || timingSafeEqual(digest(req.get(secret.header) ?? ""), digest(secret.value));
  }

  /** Throws a RequestError if the proxy passed a client's own header beside its own. */
  function findProxied(req: Request): Access | undefined {
    if (proxy === undefined || !isFromProxy(req)) return undefined;
    for (const header of [proxy.header, proxy.groupsHeader, proxy.secret?.header]) {
      if (header !== undefined && (req.headersDistinct[header.toLowerCase()]?.length ?? 0) > 1)
        throw new RequestError(
          400,
          `The header ${header} is present more than once.`,
          "The proxy must remove this header from incoming requests.",
        );
    }
    const name = req.get(proxy.header)?.trim();
    if (!name) return undefined;
    const groups = splitGroups(proxy.groupsHeader && req.get(proxy.groupsHeader));
    return { until: now() + elseMs, by: "proxy", name: name.slice(0, 200), groups, role: roleOf(groups) };
  }

  /** The browser's secret that a CSRF token belongs to: its session cookie, or a cookie that replaces it. */
  function secretOf(req: Request, { by }: Access): string | undefined {
    return cookieOf(req, by === "proxy" ? proofCookie : sessionCookie) || undefined;
  }

  return {
    logins: () => ({ token: token !== undefined, oidc: oidc !== undefined }),
    isToken,
    hasBearer: (req) => bearerOf(req) !== undefined,
    async find(req) {
      const bearer = bearerOf(req);
      if (bearer !== undefined)
        return isToken(bearer) ? { until: now() + elseMs, by: "token", groups: [], role: tokenRole } : undefined;
      const proxied = findProxied(req);
      if (proxied !== undefined) return proxied;
      const value = cookieOf(req, sessionCookie) ?? "";
      const until = isSession(value);
      if (until !== undefined) return { until, by: "session", groups: [], role: tokenRole };
      return findNamed(value);
    },
    startSession(req, res) {
      const until = String(now() + sessionMs);
      const value = `${until}.${proofOf(`session ${until}`).toString("base64url")}`;
      res.cookie(sessionCookie, value, { ...ownCookie(req), maxAge: sessionMs });
    },
    async startNamedSession(req, res, { name, groups }) {
      const role = roleOf(groups);
      if (oidc === undefined || role === undefined) return { role: undefined, groupsLeftOut: 0 };
      // Dropping groups only reduces rights; groups that give a role are kept first.
      const known = new Set([...viewerGroups, ...operatorGroups]);
      const kept = fitting(groups) ? groups : groups.filter((group) => known.has(group));
      const value = await oidc.seal.close("session", { name, groups: kept }, now() + oidc.sessionMs);
      res.cookie(sessionCookie, value, { ...ownCookie(req), maxAge: oidc.sessionMs });
      return { role, groupsLeftOut: groups.length - kept.length };
    },
    endSession(req, res) {
      res.clearCookie(sessionCookie, ownCookie(req));
      if (cookieOf(req, proofCookie) !== undefined) res.clearCookie(proofCookie, ownCookie(req));
    },
    proofFor(req, res, access) {
      if (access.by === "token") return undefined;
      let secret = secretOf(req, access);
      if (secret === undefined) {
        secret = randomBytes(32).toString("base64url");
        res.cookie(proofCookie, secret, ownCookie(req));
      }
      return proofText(secret, access);
    },
    hasProof(req, access) {
      if (access.by === "token") return true;
      const secret = secretOf(req, access);
      const given = req.get(proofHeader);
      if (secret === undefined || given === undefined) return false;
      return timingSafeEqual(digest(given), digest(proofText(secret, access)));
    },
  };
}

function proofText(secret: string, { by, name = "" }: Access): string {
  return createHmac("sha256", secret).update(`towline page proof\0${by}\0${name}`).digest("base64url");
}

function digest(text: string): Buffer {
  return createHmac("sha256", "towline page proof").update(text).digest();
}

function fitting(groups: readonly string[]): boolean {
  return Buffer.byteLength(JSON.stringify(groups)) <= mostGroupsBytes;
}

/** Cookie options: same site only, not readable by scripts. */
export function ownCookie(req: Request): CookieOptions {
  return {
    httpOnly: true,
    sameSite: "strict",
    path: "/",
    // A client that forges this header only prevents its own browser from sending the cookie.
    secure: req.secure || req.get("x-forwarded-proto")?.split(",")[0]?.trim() === "https",
  };
}

function bearerOf(req: Request): string | undefined {
  return /^Bearer +(\S+)$/i.exec(req.get("authorization") ?? "")?.[1];
}

export function cookieOf(req: Request, name: string): string | undefined {
  const cookies = (req.get("cookie") ?? "").split(";").map((part) => part.trim());
  return cookies.find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);
}

function splitGroups(header: string | undefined): string[] {
  const all = (header ?? "").split(",").map((group) => group.trim());
  return [...new Set(all.filter((group) => group !== ""))];
}
