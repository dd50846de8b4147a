/** Waits until the system rests, and judges it. */
import { setTimeout as sleep } from "node:timers/promises";
import { checkAlways, checkAtRest, type Violation } from "./checker.ts";
import { settleMs, type Stage } from "./stage.ts";

/**
 * A violation counts only if the very same one persists this long: longer than a stuck request waits before it is
 * repeated. On a busy machine something is always in progress, but never the same thing for this long.
 */
const atMostMs = 150_000;
/** A pull request whose base keeps changing is compared at most once in this time, and its comment says when that is next. */
const promisedMs = 600_000;
const promises = /They change so often that the next comparison follows at /;
/** Limit for an episode whose violations keep changing. */
const neverMs = 600_000;

/** Waits two sweeps and one Lease before judging anything; the server must be right by itself after that. */
export async function settle(stage: Stage, signal: AbortSignal | undefined): Promise<Violation[]> {
  const from = performance.now();
  let since = new Map<string, number>();
  await sleep(settleMs, undefined, { signal });
  for (;;) {
    const rest = await stage.rest();
    const left = checkAtRest(stage.history(), rest);
    const isPromised = rest.pullRequests.some(
      ({ state, comments }) => state === "open" && comments.some((text) => promises.test(text)),
    );
    const moreMs = isPromised ? promisedMs : 0;
    const now = performance.now();
    since = new Map(left.map(({ what }) => [what, since.get(what) ?? now]));
    const stays = left.filter(({ what }) => now - (since.get(what) ?? now) > atMostMs + moreMs);
    const isOver = left.length === 0 || stays.length > 0 || now - from > neverMs + moreMs;
    if (isOver) return [...checkAlways(stage.history()), ...(stays.length > 0 ? stays : left)];
    if (signal?.aborted) throw new Error(`ended while ${left.map(({ what }) => what).join("; ")}`);
    await sleep(stage.pullRequests ? 3_000 : 500, undefined, { signal }).catch(() => undefined);
  }
}
