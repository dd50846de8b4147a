import { GitbeakerRequestError, GitbeakerTimeoutError, PersonalAccessTokens, Users } from "@gitbeaker/rest";
import type { ForgeAccount } from "../../model.ts";
import { askTimeoutMs, rejectedToken } from "../ask-user.ts";

interface Connection {
  readonly host: string;
  readonly token: string;
  readonly queryTimeout: number;
}

/** `apiUrl` ends in `/api/v4`; the library adds that itself. Its own timeout would be five minutes. */
export async function findGitlabUser(apiUrl: string, token: string): Promise<ForgeAccount> {
  const host = apiUrl.replace(/\/api\/v4\/?$/, "");
  const connection = { host, token, queryTimeout: askTimeoutMs };
  try {
    const user = await new Users(connection).showCurrentUser();
    if (typeof user.username === "string") return { name: user.username, expiresAt: await findExpiry(connection) };
  } catch (error) {
    if (error instanceof GitbeakerTimeoutError) throw new Error(`${host} did not respond in time`, { cause: error });
    const status = error instanceof GitbeakerRequestError ? error.cause?.response.status : undefined;
    if (status === 401) throw rejectedToken(error);
    throw new Error(status ? `${host} responded with status ${status}` : `${host} cannot be reached`, { cause: error });
  }
  throw new Error(`${host} did not return a user: is apiUrl the URL of the API?`);
}

/** At the beginning of a day in UTC. Tokens of projects and groups belong to a bot, and are read in the same way. */
async function findExpiry(connection: Connection): Promise<number | undefined> {
  try {
    const { expires_at: day } = await new PersonalAccessTokens(connection).show();
    return Date.parse(String(day)) || undefined;
  } catch (error) {
    // Tokens that may not read themselves, such as those of OAuth, work all the same.
    if (error instanceof GitbeakerRequestError || error instanceof GitbeakerTimeoutError) return undefined;
    throw error;
  }
}
