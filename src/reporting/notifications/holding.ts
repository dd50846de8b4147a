/** Holds messages back in quiet hours and beyond the limit per hour, and joins many into one. Pure. */
import type { QuietHours, TargetConfig } from "../../config.ts";
import { type SentRecord, slotOf } from "../../model.ts";
import type { Abilities } from "./abilities.ts";
import type { NotifyStep } from "./planning.ts";

export interface HeldBack {
  /** To be done one by one: changes of sent messages, and new messages within the limit. */
  readonly single: readonly NotifyStep[];
  /** To be sent as one message. */
  readonly joined: readonly NotifyStep[];
  /** Nothing is done about these now. */
  readonly held: readonly NotifyStep[];
  /** When to look at the held ones again, in epoch milliseconds. */
  readonly wakeAt?: number | undefined;
}

/** More new messages at one moment are joined: they have one cause, or nobody reads them one by one. */
const mostAtOnce = 5;
const hourMs = 3_600_000;

export function holdBack(
  steps: readonly NotifyStep[],
  record: Pick<SentRecord, "hour" | "held">,
  settings: Pick<TargetConfig, "perHour" | "quietHours">,
  { refreshMs }: Pick<Abilities, "refreshMs">,
  now: number,
): HeldBack {
  // A target with a memory of its own groups and silences by itself, and has to hear of each end.
  if (refreshMs !== undefined) return { single: steps, joined: [], held: [] };
  // Each channel has a limit of its own, so that whoever fills one does not silence the others.
  const parts = [...Map.groupBy(steps, ({ channel }) => slotOf(channel))].map(([slot, theirs]) =>
    holdBackOne(theirs, record.hour[slot] ?? [], record.held === true, settings, now),
  );
  const wakes = parts.flatMap(({ wakeAt }) => wakeAt ?? []);
  return {
    single: parts.flatMap(({ single }) => single),
    joined: parts.flatMap(({ joined }) => joined),
    held: parts.flatMap(({ held }) => held),
    ...(wakes.length > 0 && { wakeAt: Math.min(...wakes) }),
  };
}

function holdBackOne(
  steps: readonly NotifyStep[],
  hour: readonly number[],
  hasHeld: boolean,
  { perHour, quietHours }: Pick<TargetConfig, "perHour" | "quietHours">,
  now: number,
): HeldBack {
  const isNew = ({ message }: NotifyStep) => message !== undefined && message.sent === undefined;
  const others = steps.filter((step) => !isNew(step));
  const fresh = steps.filter(isNew);
  const quietUntil = quietHours && endOfQuiet(quietHours, now);
  const silent = quietUntil === undefined ? [] : fresh.filter(({ message }) => message?.severity !== "error");
  const due = fresh.filter((step) => !silent.includes(step));
  const recent = hour.filter((at) => at > now - hourMs && at <= now);
  const left = perHour - recent.length;
  const wakes = silent.length > 0 && quietUntil !== undefined ? [quietUntil] : [];
  const oneByOne = due.length <= Math.min(mostAtOnce, left) && !(hasHeld && quietUntil === undefined && due.length > 1);
  if (oneByOne) return { single: [...due, ...others], joined: [], held: silent, wakeAt: wakes[0] };
  if (left > 0) return { single: others, joined: due, held: silent, wakeAt: wakes[0] };
  const freeAt = Math.min(...recent) + hourMs;
  return { single: others, joined: [], held: [...silent, ...due], wakeAt: Math.min(freeAt, ...wakes) };
}

/** `undefined`: it is not quiet. */
function endOfQuiet({ from, to, timeZone }: QuietHours, now: number): number | undefined {
  const minute = minuteOfDay(now, timeZone);
  const [start, end] = [toMinutes(from), toMinutes(to)];
  const isQuiet = start <= end ? minute >= start && minute < end : minute >= start || minute < end;
  if (!isQuiet) return undefined;
  const minutes = (end - minute + 1_440) % 1_440;
  return Math.floor(now / 60_000) * 60_000 + minutes * 60_000;
}

function minuteOfDay(now: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone });
  return toMinutes(format.format(now));
}

function toMinutes(time: string): number {
  const [hours = 0, minutes = 0] = time.split(":").map(Number);
  return hours * 60 + minutes;
}
