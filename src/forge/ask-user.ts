import { z } from "zod";
import { ForgeError } from "../errors.ts";

/** How long a forge may take to answer which account we are. */
export const askTimeoutMs = 10_000;

const User = z.object({ login: z.string() });

/** What a host answers to an expired token, too. */
export function rejectedToken(cause?: unknown): ForgeError {
  return new ForgeError("unauthorized", "the token was rejected (401): it is wrong, revoked or expired", { cause });
}

/**
 * Reads the current user of an API that calls its name `login`, and the headers of the answer. Follows no redirect: the
 * token must not reach another host.
 */
export async function askUser(
  url: string,
  headers: Record<string, string>,
): Promise<{ readonly name: string; readonly answered: Headers }> {
  const answer = await fetch(url, { headers, redirect: "error", signal: AbortSignal.timeout(askTimeoutMs) }).catch(
    (cause: unknown) => {
      throw new Error(`${url} cannot be reached`, { cause });
    },
  );
  if (answer.status === 401) throw rejectedToken();
  if (!answer.ok) throw new Error(`${url} responded with status ${answer.status}`);
  const user = User.safeParse(await answer.json().catch(() => undefined));
  if (!user.success) throw new Error(`${url} did not return a user: is apiUrl the URL of the API?`);
  return { name: user.data.login, answered: answer.headers };
}
