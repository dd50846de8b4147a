/** Whether the server may act as somebody. kluctl, when it may not, says no more than "unknown". */
import { ApiError } from "../errors.ts";
import type { KubeClient } from "./client.ts";

export interface ImpersonationDeps {
  readonly client: Pick<KubeClient, "request">;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
}

/** A right that is taken away is noticed by kluctl too. */
const rememberedMs = 5 * 60_000;
const mostRemembered = 5_000;

/** Says why not, in the API server's words; `undefined` if it may, or if nobody can say. */
export function createImpersonationCheck({ client, now = () => performance.now() }: ImpersonationDeps) {
  const allowed = new Map<string, number>();

  return async function refusedToActAs(user: string): Promise<string | undefined> {
    const at = allowed.get(user);
    if (at !== undefined && now() - at < rememberedMs) return undefined;
    try {
      // Everybody may read it, so that a refusal is about who asks.
      await client.request({ method: "GET", path: "/version", as: user, timeoutMs: 3_000, totalMs: 0 });
    } catch (error) {
      const refused =
        error instanceof ApiError && error.status === 403 && error.message.includes(" cannot impersonate ");
      return refused ? error.message.replace(/^GET \/version: 403 /, "") : undefined;
    }
    if (allowed.size >= mostRemembered) allowed.clear();
    allowed.set(user, now());
    return undefined;
  };
}
