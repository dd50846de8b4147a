/** Checks whether the server may impersonate a user. If it may not, kluctl's own error is just "unknown". */
import { ApiError } from "../errors.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { KubeClient } from "./client.ts";

export interface ImpersonationDeps {
  readonly client: Pick<KubeClient, "request">;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
}

/** kluctl, too, notices when the right is revoked. */
const rememberedMs = 5 * 60_000;
const mostRemembered = 5_000;

/** Returns the API server's refusal; `undefined` if impersonation is allowed or the check was inconclusive. */
export function createImpersonationCheck({ client, now }: ImpersonationDeps) {
  const allowed = createBoundedMap<true>({ entries: mostRemembered, maxAgeMs: rememberedMs, now });

  return async function refusedToActAs(user: string): Promise<string | undefined> {
    if (allowed.get(user)) return undefined;
    try {
      // All users may read /version, so a refusal is about the impersonation.
      await client.request({ method: "GET", path: "/version", as: user, timeoutMs: 3_000, totalMs: 0 });
    } catch (error) {
      const refused =
        error instanceof ApiError && error.status === 403 && error.message.includes(" cannot impersonate ");
      return refused ? error.message.replace(/^GET \/version: 403 /, "") : undefined;
    }
    allowed.set(user, true);
    return undefined;
  };
}
