import { askUser } from "../ask-user.ts";

/** GitHub refuses requests without a User-Agent. */
export function findGithubUser(apiUrl: string, token: string): Promise<string> {
  const headers = { Authorization: `Bearer ${token}`, Accept: "application/vnd.github+json", "User-Agent": "towline" };
  return askUser(`${apiUrl.replace(/\/$/, "")}/user`, headers);
}
