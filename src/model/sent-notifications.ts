/** What a target was sent, as it is recorded in the cluster, so that nothing is sent twice. */
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { noticeKinds, type NoticeState, severities } from "./notification.ts";

/** By a digest of channel and subject. */
const Sent = z.object({
  kind: z.enum(noticeKinds),
  state: z.enum(["progress", "succeeded", "failed", "recovered", "open"]),
  /** When this state was first seen, and when it was last sent: epoch milliseconds. */
  at: z.number(),
  sentAt: z.number().optional(),
  /** A digest of what was sent; absent if nothing was. */
  content: z.string().optional(),
  /** What the target returned. */
  ref: z.string().optional(),
  channel: z.string().optional(),
  /** For the title of the last state, when the subject itself is gone. */
  about: z.string(),
  object: z
    .object({ apiVersion: z.string(), kind: z.string(), namespace: z.string(), name: z.string(), uid: z.string() })
    .optional(),
  /** Digests of what needed somebody. */
  names: z.array(z.string()).optional(),
  /** Since when nothing is known of it any more, which may be because Redis lost it. */
  goneAt: z.number().optional(),
});

/** A message that may have been sent: it is recorded before, and removed after. */
const Sending = z.object({ id: z.string(), by: z.string(), at: z.number(), attempts: z.number() });

const Trouble = z.object({
  since: z.number(),
  until: z.number(),
  message: z.string(),
  channel: z.string().optional(),
});

const Record = z.object({
  v: z.literal(1),
  sent: z.record(z.string(), Sent),
  /** One word for each deployment of which a channel hears, see planning-deploys.ts. */
  seen: z.record(z.string(), z.string()),
  sending: Sending.optional(),
  /** Something waits for the end of the quiet hours. */
  held: z.boolean().optional(),
  /** When new messages were sent within the last hour, by `slotOf`. */
  hour: z.record(z.string(), z.array(z.number())),
  /** Channels that do not answer, and when each is tried again; by `slotOf`. */
  late: z.record(z.string(), Trouble).optional(),
  /** Messages that were refused, by what they are about, and when each is tried again. */
  refused: z.record(z.string(), Trouble).optional(),
  /** When the last message was sent or changed. */
  lastSentAt: z.number().optional(),
  /** The last messages, the newest first. */
  recent: z.array(z.object({ at: z.number(), title: z.string(), severity: z.enum(severities) })).optional(),
});

export type SentNotice = Readonly<z.infer<typeof Sent>>;
export type SentRecord = Readonly<z.infer<typeof Record>>;
export type SentState = Exclude<NoticeState, "closed">;

/** How a record names a channel: users choose its name, which must not be that of a property of every object. */
export function slotOf(channel: string | undefined): string {
  return channel === undefined ? "" : `:${channel}`;
}

/** Begins the word, in `seen`, of a deployment that is known to fail. */
export const failing = "!";

export function isReportedFailure(word: string): boolean {
  return word.startsWith(failing);
}

/** The API server accepts 1 MiB for a whole ConfigMap. */
const mostBytes = 700_000;

/**
 * As JSON that fits into a ConfigMap. If there is more, the names of what is open are left out first, and then the entries: they
 * serve to change messages.
 */
export function printSentRecord(record: SentRecord): string {
  const whole = JSON.stringify(record);
  if (Buffer.byteLength(whole) <= mostBytes) return whole;
  const entries = Object.entries(record.sent).map(([key, { names: _, ...entry }]) => [key, entry] as const);
  const text = JSON.stringify({ ...record, sent: Object.fromEntries(entries) });
  if (Buffer.byteLength(text) <= mostBytes) return text;
  const open = entries.filter(([, { state }]) => state === "open").slice(0, mostOpen);
  return JSON.stringify({ ...record, sent: Object.fromEntries(open), refused: {}, late: {} });
}

/** Of 300 bytes each. */
const mostOpen = 1_000;

/** Returns `undefined` for a record of another version, or one that somebody edited. */
export function parseSentRecord(text: string): SentRecord | undefined {
  return Record.safeParse(parseJson(text)).data;
}
