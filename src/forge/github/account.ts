import { appAnswer } from "./answers.ts";
import { read } from "./login.ts";
import { createWire } from "./wire.ts";
import type { ForgeAccount } from "../../model.ts";
import { askTimeoutMs, askUser } from "../ask-user.ts";
import type { Logger } from "../../log.ts";

/** GitHub refuses requests without a User-Agent. */
export async function findGithubUser(apiUrl: string, token: string): Promise<ForgeAccount> {
  const headers = { Authorization: `Bearer ${token}`, Accept: "application/vnd.github+json", "User-Agent": "towline" };
  const { name, answered } = await askUser(`${apiUrl.replace(/\/$/, "")}/user`, headers);
  // Like `2026-12-31 05:00:00 UTC`, and absent for tokens that do not expire.
  const expires = Date.parse(answered.get("github-authentication-token-expiration") ?? "");
  return { name, ...(Number.isFinite(expires) && { expiresAt: expires }) };
}

/** Returns the App's name as its comments show it. Throws ForgeError. */
export async function findGithubApp(
  apiUrl: string,
  app: { readonly appId: string; readonly privateKey: string },
  log: Logger,
): Promise<string> {
  const wire = createWire({ apiUrl: apiUrl.replace(/\/+$/, ""), timeoutMs: askTimeoutMs, log, app });
  const question = { what: "read the App's identity", who: "the App" } as const;
  return `${read(appAnswer, await wire.request("GET /app", {}, question), question).slug}[bot]`;
}
