/**
 * Who may see the page: whoever has its token, as a header or as the session that was made with it, and whom a proxy names
 * that asked them. A session holds nothing but its end and a proof of the token, so that every replica knows it.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Request, Response } from "express";

export interface PageAccessDeps {
  readonly token?: string | undefined;
  readonly proxy?: { readonly header: string; isProxy(address: string): boolean } | undefined;
  readonly now: () => number;
}

export interface Access {
  /** Until when the answer holds, epoch milliseconds. */
  readonly until: number;
  readonly by: "token" | "session" | "proxy";
}

export interface PageAccess {
  /** `undefined`: nobody may see anything. */
  find(req: Request): Access | undefined;
  /** Whether there is a token to log in with. */
  readonly byToken: boolean;
  isToken(text: string): boolean;
  /** Whether the request tries to log in by itself. */
  hasBearer(req: Request): boolean;
  startSession(req: Request, res: Response): void;
  endSession(req: Request, res: Response): void;
}

const cookieName = "towline-session";
const sessionMs = 12 * 3_600_000;
/** A stream of a caller without a session asks again after this. */
const elseMs = 3_600_000;

export function createPageAccess({ token, proxy, now }: PageAccessDeps): PageAccess {
  const proofOf = (what: string) =>
    createHmac("sha256", token ?? "")
      .update(`towline page ${what}`)
      .digest();
  const expected = proofOf("token");

  /** In a time that tells nothing of where they differ, nor of their lengths. */
  function isToken(text: string): boolean {
    const given = createHmac("sha256", text).update("towline page token").digest();
    return timingSafeEqual(given, expected) && token !== undefined;
  }

  function isSession(value: string): number | undefined {
    const [, until = "", proof = ""] = /^(\d{1,15})\.([A-Za-z0-9_-]{43})$/.exec(value) ?? [];
    if (token === undefined || until === "" || Number(until) <= now()) return undefined;
    return timingSafeEqual(Buffer.from(proof, "base64url"), proofOf(`session ${until}`)) ? Number(until) : undefined;
  }

  const options = (req: Request) =>
    ({
      httpOnly: true,
      sameSite: "strict",
      path: "/",
      // Whoever says that it is https without truth only keeps their own browser from sending the cookie.
      secure: req.secure || req.get("x-forwarded-proto")?.split(",")[0]?.trim() === "https",
    }) as const;

  return {
    byToken: token !== undefined,
    isToken,
    hasBearer: (req) => bearerOf(req) !== undefined,
    find(req) {
      const bearer = bearerOf(req);
      if (bearer !== undefined) return isToken(bearer) ? { until: now() + elseMs, by: "token" } : undefined;
      const named = proxy && req.get(proxy.header)?.trim();
      if (named && proxy.isProxy(req.socket.remoteAddress ?? "")) return { until: now() + elseMs, by: "proxy" };
      const until = isSession(cookieOf(req) ?? "");
      return until === undefined ? undefined : { until, by: "session" };
    },
    startSession(req, res) {
      const until = String(now() + sessionMs);
      const value = `${until}.${proofOf(`session ${until}`).toString("base64url")}`;
      res.cookie(cookieName, value, { ...options(req), maxAge: sessionMs });
    },
    endSession(req, res) {
      res.clearCookie(cookieName, options(req));
    },
  };
}

function bearerOf(req: Request): string | undefined {
  return /^Bearer +(\S+)$/i.exec(req.get("authorization") ?? "")?.[1];
}

function cookieOf(req: Request): string | undefined {
  const cookies = (req.get("cookie") ?? "").split(";").map((part) => part.trim());
  return cookies.find((part) => part.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1);
}
