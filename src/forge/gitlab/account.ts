import { GitbeakerRequestError, GitbeakerTimeoutError, Users } from "@gitbeaker/rest";
import { askTimeoutMs } from "../ask-user.ts";

/** `apiUrl` ends in `/api/v4`; the library adds that itself. Its own timeout would be five minutes. */
export async function findGitlabUser(apiUrl: string, token: string): Promise<string> {
  const host = apiUrl.replace(/\/api\/v4\/?$/, "");
  try {
    const user = await new Users({ host, token, queryTimeout: askTimeoutMs }).showCurrentUser();
    if (typeof user.username === "string") return user.username;
  } catch (error) {
    if (error instanceof GitbeakerTimeoutError) throw new Error(`${host} did not respond in time`, { cause: error });
    const status = error instanceof GitbeakerRequestError ? error.cause?.response.status : undefined;
    if (status === 401) throw new Error("the token was rejected (401): it is wrong, revoked or expired");
    throw new Error(status ? `${host} responded with status ${status}` : `${host} cannot be reached`, { cause: error });
  }
  throw new Error(`${host} did not return a user: is apiUrl the URL of the API?`);
}
