/**
 * Decides what a target has to be sent so that it knows what is true now: from the notices and from the record of what it
 * was sent. Pure.
 */
import { createHash } from "node:crypto";
import type { NoticeEvent, NoticeObject, NoticeState, SentNotice, SentRecord, SentState } from "../../model.ts";
import { type Notice, objectOf } from "./notices.ts";
import { endTitle, severityOf, type NoticeWords, wordsOf } from "./words.ts";

export interface NotifyStep {
  /** Digest of channel and subject: what it is about. */
  readonly key: string;
  readonly channel: string | undefined;
  /** Absent: it is only recorded. */
  readonly message?: StepMessage | undefined;
  /** What to record afterwards; absent: the subject is gone. */
  readonly entry?: SentNotice | undefined;
}

export interface StepMessage extends NoticeWords {
  readonly id: string;
  readonly state: NoticeState;
  readonly kind: Notice["kind"];
  readonly at: number;
  /** Absent if the subject is gone. */
  readonly notice?: Notice | undefined;
  readonly object?: NoticeObject | undefined;
  /** What identifies the message to change. */
  readonly sent?: string | undefined;
  readonly announce: boolean;
}

export interface Plan {
  readonly steps: readonly NotifyStep[];
  readonly known: readonly string[];
  /** When something that is too fresh may be sent, in epoch milliseconds. */
  readonly wakeAt?: number | undefined;
}

export interface ChannelNotices {
  readonly channel: string | undefined;
  readonly notices: readonly Notice[];
}

export interface Abilities {
  readonly edits: boolean;
  readonly refreshMs?: number | undefined;
}

/** The deployments of one push end one after the other. */
const quietMs = 5_000;
/** How long a target whose messages cannot be changed waits for the rest of a push that has failed somewhere. */
const patienceMs = 2 * 60_000;
const longestQuietMs = 15 * 60_000;
const editEveryMs = 3_000;
/** Later, a message scrolled away: what changes in it then is of no interest. */
const editableMs = 60 * 60_000;
const mostNames = 1_000;
/**
 * A commit that is new to a channel only because a route or an annotation is new is no news. Longer than any quiet hours.
 */
const newsMs = 24 * 60 * 60_000;

/** The record of a target that was just configured: what is true already is no news, unless the target has to be reminded. */
export function firstRecord(
  channels: readonly ChannelNotices[],
  { refreshMs }: Pick<Abilities, "refreshMs">,
  now: number,
): SentRecord {
  const all = channels.flatMap(({ channel, notices }) => notices.map((notice) => ({ channel, notice })));
  const known = all.filter(({ notice }) => !needsSomebody(notice.state));
  const needing = refreshMs === undefined ? all.filter(({ notice }) => needsSomebody(notice.state)) : [];
  return {
    v: 1,
    known: known.map(({ channel, notice }) => keyOf(channel, notice.subject)),
    sent: Object.fromEntries(
      needing.map(({ channel, notice }) => [
        keyOf(channel, notice.subject),
        entryOf(notice, notice.state as SentState, channel, now),
      ]),
    ),
    hour: {},
  };
}

export function planSteps(
  record: SentRecord,
  channels: readonly ChannelNotices[],
  abilities: Abilities,
  now: number,
): Plan {
  const { lastSentAt = 0 } = record;
  const known = new Set(record.known);
  const current = new Set<string>();
  const steps: NotifyStep[] = [];
  const waits: number[] = [];
  for (const { channel, notices } of channels) {
    for (const notice of notices) {
      const key = keyOf(channel, notice.subject);
      current.add(key);
      const entry = record.sent[key];
      const isMended = notice.state === "succeeded" && endsFailure(record, notice, channel);
      const found = nextOf(notice, { entry, isKnown: known.has(key), isMended, ...abilities, lastSentAt, now });
      if (typeof found === "number") waits.push(found);
      else if (found !== undefined)
        steps.push(toStep(notice, found, { key, channel, entry, ...abilities, lastSentAt, now }));
    }
  }
  for (const [key, entry] of Object.entries(record.sent)) {
    if (!current.has(key)) steps.push(endOf(key, entry, { ...abilities, lastSentAt, now }));
    else if (isOld(entry, now)) {
      // An entry that can no longer change is as good as its digest.
      steps.push({ key, channel: entry.channel });
      known.add(key);
    }
  }
  const stillKnown = [...known].filter(
    (key) => current.has(key) && !steps.some((step) => step.key === key && step.entry),
  );
  return { steps, known: stillKnown, wakeAt: waits.length === 0 ? undefined : Math.min(...waits) };
}

interface Situation extends Abilities {
  readonly entry: SentNotice | undefined;
  readonly isKnown: boolean;
  /** It mends what an earlier commit broke. */
  readonly isMended: boolean;
  /** When the target was sent anything; 0: never. It tells apart two messages with the same content. */
  readonly lastSentAt: number;
  readonly now: number;
}

/** The state to report; a time to look again; or `undefined`: nothing is new. */
function nextOf(notice: Notice, situation: Situation): SentState | number | undefined {
  const { entry, isKnown, isMended, edits, refreshMs, now } = situation;
  const { state, settled, firstAt, lastAt, deployedAt } = notice;
  // Whoever deploys again and again must not put off what others wait for.
  const readyAt = state === "failed" ? firstAt + quietMs : Math.min(lastAt + quietMs, firstAt + longestQuietMs);
  // What the status does not say while a deployment is reconciled has not changed.
  if (notice.kind !== "deploy" && !settled && (state === "progress" || entry !== undefined)) return undefined;
  if (state === "progress") {
    if (entry === undefined) return !isKnown && notice.events.has("started") ? "progress" : undefined;
    return entry.state === "progress" && edits ? ifChanged("progress") : undefined;
  }
  if (state === "succeeded") {
    if (entry === undefined && !isMended && (isKnown || deployedAt < now - newsMs)) return undefined;
    if (now < readyAt) return readyAt;
    const isRecovery = isMended || entry?.state === "failed" || entry?.state === "recovered";
    return ifChanged(isRecovery ? "recovered" : "succeeded");
  }
  if (entry?.state === state) return ifChanged(state);
  if (now < readyAt) return readyAt;
  if (!settled && !edits && now < firstAt + patienceMs) return firstAt + patienceMs;
  return state;

  function ifChanged(next: SentState): SentState | number | undefined {
    if (entry?.state !== next) return next;
    const isDue = refreshMs !== undefined && entry.content !== undefined && needsSomebody(next);
    if (isDue && now >= (entry.sentAt ?? entry.at) + refreshMs) return next;
    if (entry.content !== undefined && entry.content === contentOf(notice, next)) return undefined;
    if (needsSomebody(next) && hasNewNames(notice, entry) && (edits || settled)) return soonest(next);
    // A retry in progress has mended nothing yet.
    if (needsSomebody(next) && !settled) return undefined;
    if (!edits || entry.ref === undefined || now > entry.at + editableMs) return undefined;
    return soonest(next);
  }

  function soonest(next: SentState): SentState | number {
    const at = (entry?.sentAt ?? 0) + editEveryMs;
    return now < at ? at : next;
  }
}

function toStep(
  notice: Notice,
  state: SentState,
  {
    key,
    channel,
    entry,
    edits,
    lastSentAt,
    now,
  }: Pick<Situation, "entry" | "edits" | "lastSentAt" | "now"> & Pick<NotifyStep, "key" | "channel">,
): NotifyStep {
  const sent = edits ? entry?.ref : undefined;
  const next = entryOf(notice, state, channel, entry?.state === state ? entry.at : now);
  if (!notice.events.has(eventOf(notice, state)) && sent === undefined) return { key, channel, entry: next };
  const content = contentOf(notice, state);
  const isOther = entry !== undefined && entry.state !== state;
  return {
    key,
    channel,
    message: {
      ...wordsOf(notice, state),
      ...{
        id: digest(`${key} ${state} ${content} ${lastSentAt}`),
        state,
        kind: notice.kind,
        at: next.at,
        notice,
        sent,
      },
      object: next.object,
      announce: isOther && entry.content !== undefined && (state === "failed" || state === "recovered"),
    },
    entry: { ...next, content, sentAt: now, ...(sent !== undefined && { ref: sent }) },
  };
}

/** Nothing is left of the subject: another commit came, or what was open is closed. */
function endOf(
  key: string,
  entry: SentNotice,
  { edits, lastSentAt, now }: Pick<Situation, "edits" | "lastSentAt" | "now">,
): NotifyStep {
  const { kind, about, channel, content, ref, object } = entry;
  const isOpen = needsSomebody(entry.state) || entry.state === "progress";
  const sent = edits ? ref : undefined;
  // The newer commit has a message of its own.
  const isTold = content !== undefined && isOpen && (sent !== undefined || kind !== "deploy");
  if (!isTold) return { key, channel };
  const title = endTitle(kind, about);
  const message: StepMessage = {
    ...{ title, kind, state: "closed", severity: severityOf(kind, "closed"), sent, object, at: now },
    ...{ lines: [], linesLeftOut: 0, succeeded: 0 },
    id: digest(`${key} closed ${content} ${lastSentAt}`),
    announce: false,
  };
  return { key, channel, message };
}

function isOld({ state, at }: SentNotice, now: number): boolean {
  return (state === "succeeded" || state === "recovered") && now > at + editableMs;
}

function needsSomebody(state: NoticeState): boolean {
  return state === "failed" || state === "open";
}

/** Whether a deployment that is well now failed with an earlier commit of its repository. */
function endsFailure({ sent }: SentRecord, notice: Notice, channel: string | undefined): boolean {
  const succeeded = notice.lines.filter(({ state }) => state === "succeeded");
  const well = new Set(succeeded.map(({ name }) => digest(name).slice(0, 8)));
  return Object.entries(sent).some(
    ([key, entry]) =>
      entry.state === "failed" &&
      entry.source === notice.repo &&
      entry.channel === channel &&
      key !== keyOf(channel, notice.subject) &&
      entry.names?.some((name) => well.has(name)),
  );
}

function hasNewNames(notice: Notice, entry: SentNotice): boolean {
  const known = new Set(entry.names);
  return namesOf(notice).some((name) => !known.has(name));
}

function entryOf(notice: Notice, state: SentState, channel: string | undefined, at: number): SentNotice {
  const object = notice.kind === "preview" || notice.kind === "webhooks" ? undefined : objectOf(notice.deployments[0]);
  return {
    ...(object && { object }),
    ...{ kind: notice.kind, state, at, about: notice.about, names: namesOf(notice) },
    ...(channel !== undefined && { channel }),
    ...(notice.repo !== undefined && { source: notice.repo }),
  };
}

function namesOf({ lines, state }: Notice): string[] {
  if (!needsSomebody(state)) return [];
  const needing = lines.filter(({ state: its }) => its !== "succeeded" && its !== "progress");
  return needing.slice(0, mostNames).map(({ name }) => digest(name).slice(0, 8));
}

function eventOf({ kind }: Notice, state: SentState): NoticeEvent {
  if (kind !== "deploy") return kind;
  return state === "progress" ? "started" : state === "open" ? "failed" : state;
}

/** What a reader would notice. */
function contentOf(notice: Notice, state: SentState): string {
  const { title, lines, linesLeftOut, succeeded } = wordsOf(notice, state);
  return digest(JSON.stringify([state, title, lines, linesLeftOut, succeeded]));
}

function keyOf(channel: string | undefined, subject: string): string {
  return digest(JSON.stringify([channel ?? "", subject]));
}

/** 72 bits: nobody can bring about a collision that harms anybody but themselves. */
function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 12);
}
