import { appAnswer } from "./answers.ts";
import { read } from "./login.ts";
import { createWire } from "./wire.ts";
import { askTimeoutMs, askUser } from "../ask-user.ts";
import type { Logger } from "../../log.ts";

/** GitHub refuses requests without a User-Agent. */
export function findGithubUser(apiUrl: string, token: string): Promise<string> {
  const headers = { Authorization: `Bearer ${token}`, Accept: "application/vnd.github+json", "User-Agent": "towline" };
  return askUser(`${apiUrl.replace(/\/$/, "")}/user`, headers);
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
