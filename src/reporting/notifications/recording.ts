/** What the record of a target has after a message, and without what is over. Pure. */
import { type SentRecord, slotOf } from "../../model.ts";
import type { NotifyStep } from "./planning.ts";

const hourMs = 3_600_000;

/** `ref`: what identifies the message from now on; absent if nothing was sent. */
export function withSteps(
  record: SentRecord,
  steps: readonly NotifyStep[],
  done?: { readonly ref: string | undefined },
): SentRecord {
  if (steps.length === 0) return record;
  const sent = new Map(Object.entries(record.sent));
  for (const { key, entry } of steps) {
    sent.delete(key);
    if (entry === undefined) continue;
    const { ref: before, ...rest } = entry;
    const ref = done === undefined ? before : done.ref;
    sent.set(key, { ...rest, ...(ref !== undefined && { ref }) });
  }
  const seen = Object.assign({}, record.seen, ...steps.map((step) => step.seen ?? {})) as SentRecord["seen"];
  return { ...record, sent: Object.fromEntries(sent), seen };
}

/** What was sent within the last hour, and now to that channel. */
export function withinHour(hour: SentRecord["hour"], now: number, channel: string | undefined): SentRecord["hour"] {
  const added = channel === undefined ? hour : { ...hour, [channel]: [...(hour[channel] ?? []), now] };
  return Object.fromEntries(
    Object.entries(added).flatMap(([name, times]) => {
      const recent = times.filter((at) => at > now - hourMs);
      return recent.length > 0 ? [[name, recent]] : [];
    }),
  );
}

/** Without what is about channels and messages that no longer exist, or that need no attention any more. */
export function withoutPast(
  record: SentRecord,
  channels: readonly { readonly channel: string | undefined }[],
  messages: readonly { readonly steps: readonly NotifyStep[] }[],
): SentRecord {
  const slots = new Set(channels.map(({ channel }) => slotOf(channel)));
  const keys = new Set(messages.map(({ steps }) => steps[0]?.key ?? ""));
  const only = <Value>(all: Readonly<Record<string, Value>> = {}, kept: ReadonlySet<string>): Record<string, Value> =>
    Object.fromEntries(Object.entries(all).filter(([name]) => kept.has(name)));
  return {
    ...record,
    hour: only(record.hour, slots),
    late: messages.length > 0 ? only(record.late, slots) : {},
    refused: only(record.refused, keys),
  };
}
