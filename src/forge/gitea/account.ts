import type { ForgeAccount } from "../../model.ts";
import { askUser } from "../ask-user.ts";

/** Gitea's tokens do not expire. */
export async function findGiteaUser(apiUrl: string, token: string): Promise<ForgeAccount> {
  const { name } = await askUser(`${apiUrl.replace(/\/$/, "")}/user`, { Authorization: `token ${token}` });
  return { name };
}
