import { askUser } from "../ask-user.ts";

export function findGiteaUser(apiUrl: string, token: string): Promise<string> {
  return askUser(`${apiUrl.replace(/\/$/, "")}/user`, { Authorization: `token ${token}` });
}
