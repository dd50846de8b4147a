/** Whether webhooks stopped coming. */
import type { PageForge } from "../routes/page-facts.ts";
import { ageText } from "./words.ts";

/** After so long without one, somebody should have a look. */
const silentMs = 24 * 3_600_000;

/** `undefined`: one came not long ago. */
export function silenceOf({ lastGenuineAt }: PageForge, now: number): string | undefined {
  if (lastGenuineAt === undefined) return "No verified delivery within the last week.";
  return now - lastGenuineAt > silentMs ? `No verified delivery for ${ageText(now - lastGenuineAt)}.` : undefined;
}

/** Of a forge from which some came before, or are refused: one that was never set up is no news. */
export function alarmOf(forges: readonly PageForge[], now: number): string | undefined {
  const silent = forges.filter((forge) => forge.deliveries.length > 0 && silenceOf(forge, now) !== undefined);
  return silent.length === 0 ? undefined : `No webhooks received from ${silent.map(({ id }) => id).join(", ")}`;
}
