/** Which failed deliveries a git host is asked for again. Pure. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { DeliveryAttempt } from "../model.ts";

/** The host's ids of the deliveries that were accepted here. */
export function acceptedIds(latest: readonly DeliveryRecord[]): ReadonlySet<string> {
  return new Set(latest.flatMap(({ delivery, status }) => (status === 202 && delivery) || []));
}

/** Each is a write at the host, which limits them per minute. */
const mostAtOnce = 20;
/** After these, fourteen hours have passed. */
const mostRepeats = 5;
const firstPauseMs = 10 * 60_000;

/**
 * One attempt of each event that was never delivered, the oldest first. Events that a sweep replaces are left to it.
 * `accepted`: see `acceptedIds`. The host may count such a delivery as failed, because it did not wait for the response.
 * Its own list says how often something was repeated, so nothing has to be recorded here.
 */
export function chooseRedeliveries(
  attempts: readonly DeliveryAttempt[],
  accepted: ReadonlySet<string>,
  now: number,
): readonly DeliveryAttempt[] {
  const newestFirst = attempts.toSorted((a, b) => b.at - a.at);
  const byDelivery = Map.groupBy(
    newestFirst.filter(({ isUnswept }) => isUnswept),
    ({ delivery }) => delivery,
  );
  const failed = [...byDelivery.entries()].flatMap(([delivery, all]) =>
    accepted.has(delivery) || all.some(({ ok }) => ok) || !isDue(all, now) ? [] : all.slice(0, 1),
  );
  const oldestFirst = failed.toSorted((a, b) => a.at - b.at);
  // While nothing gets through, one of them shows whether that is still so.
  return oldestFirst.slice(0, newestFirst[0]?.ok === true ? mostAtOnce : 1);
}

/** The pauses grow: 10 minutes, 40 minutes, almost three hours … */
function isDue([newest, ...older]: readonly DeliveryAttempt[], now: number): boolean {
  if (newest === undefined) return false;
  const repeats = [newest, ...older].filter(({ isRepeat }) => isRepeat).length;
  if (repeats >= mostRepeats) return false;
  return repeats === 0 || now - newest.at >= firstPauseMs * 4 ** (repeats - 1);
}
