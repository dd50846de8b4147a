/** Whether webhooks stopped coming. */
import type { PageForge } from "../src/web/facts.ts";
import { ageText } from "./words.ts";

/** A verified delivery is missing after this time. */
const silentMs = 24 * 3_600_000;

/** Describes the silence; `undefined` if a delivery arrived recently. */
export function silenceOf({ lastVerifiedAt, polled }: PageForge, now: number): string | undefined {
  if (polled) return undefined;
  if (lastVerifiedAt === undefined) return "No verified delivery within the last week.";
  return now - lastVerifiedAt > silentMs ? `No verified delivery for ${ageText(now - lastVerifiedAt)}.` : undefined;
}

/** Only for forges with earlier or rejected deliveries: a forge that was never set up raises no alarm. */
export function alarmOf(forges: readonly PageForge[], now: number): string | undefined {
  const silent = forges.filter((forge) => forge.deliveries.length > 0 && silenceOf(forge, now) !== undefined);
  return silent.length === 0 ? undefined : `No webhooks received from ${silent.map(({ id }) => id).join(", ")}`;
}
