/**
 * Decides what a target has to be sent so that it knows what is true now: from the notices and from the record of what it
 * was sent. Pure. What became of commits is decided in planning-deploys.ts.
 */
import type { NoticeEvent, NoticeObject, NoticeState, SentNotice, SentRecord, SentState } from "../../model.ts";
import type { Abilities } from "./abilities.ts";
import { changeableAt, contentOf, isReminderDue } from "./content.ts";
import { digest } from "./digest.ts";
import { type Notice, objectOf } from "./notices.ts";
import { type DeployFound, firstSeen, planDeploy } from "./planning-deploys.ts";
import { endTitle, type NoticeWords, severityOf, wordsOf } from "./words.ts";

export interface NotifyStep {
  /** Digest of channel and subject: what it is about. */
  readonly key: string;
  readonly channel: string | undefined;
  /** Absent: it is only recorded. */
  readonly message?: StepMessage | undefined;
  /** What to record afterwards; absent: nothing is kept of the subject. */
  readonly entry?: SentNotice | undefined;
  /** What to record of deployments afterwards. */
  readonly seen?: SentRecord["seen"] | undefined;
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
  /** What the record has of deployments that the target still hears of. */
  readonly seen: SentRecord["seen"];
  /** When something that is too fresh may be sent, in epoch milliseconds. */
  readonly wakeAt?: number | undefined;
}

export interface ChannelNotices {
  readonly channel: string | undefined;
  readonly notices: readonly Notice[];
}

/** Later, a message scrolled away: what changes in it then is of no interest. */
const editableMs = 60 * 60_000;
const mostNames = 1_000;
/** Previews are made again within this time if Redis has lost their reports; then they are known to fail as before. */
const lostMs = 15 * 60_000;

/** The record of a target that was just configured: what is true already is no news, unless the target has to be reminded. */
export function firstRecord(
  channels: readonly ChannelNotices[],
  { refreshMs }: Pick<Abilities, "refreshMs">,
  now: number,
): SentRecord {
  const open = channels.flatMap(({ channel, notices }) =>
    notices.filter(({ state }) => state === "open").map((notice) => ({ channel, notice })),
  );
  const remembered = refreshMs === undefined ? open : [];
  return {
    v: 1,
    seen: Object.assign(
      {},
      ...channels.map(({ channel, notices }) => firstSeen(channel, notices, refreshMs === undefined)),
    ) as SentRecord["seen"],
    sent: Object.fromEntries(
      remembered.map(({ channel, notice }) => [keyOf(channel, notice.subject), entryOf(notice, "open", channel, now)]),
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
  const current = new Set<string>();
  const steps: NotifyStep[] = [];
  const waits: number[] = [];
  const seen: Record<string, string> = {};
  for (const { channel, notices } of channels) {
    for (const notice of notices) {
      const key = keyOf(channel, notice.subject);
      current.add(key);
      const entry = record.sent[key];
      const situation = { entry, ...abilities, lastSentAt, now, key, channel };
      if (notice.kind === "deploy") {
        const found = planDeploy(notice, { record, channel, entry, isFresh: isFresh(entry, now), ...abilities, now });
        Object.assign(seen, found.seen);
        if (found.wakeAt !== undefined) waits.push(found.wakeAt);
        if (found.changed !== undefined) steps.push(toDeployStep(found.changed, situation));
        continue;
      }
      if (notice.state === "over") {
        // Worth changing a message, but none of its own: the comment of the pull request says the same.
        if (entry) steps.push(endOf(key, entry, { ...abilities, isHeard: true, isNews: false, lastSentAt, now }));
        continue;
      }
      const next = nextOf(notice, situation);
      if (typeof next === "number") waits.push(next);
      else if (next) steps.push(toStep(notice, "open", situation));
      else if (entry?.goneAt !== undefined && notice.state === "open") {
        const { goneAt: _, ...back } = entry;
        steps.push({ key, channel, entry: back });
      }
    }
  }
  const known = new Set(channels.map(({ channel }) => channel));
  for (const [key, entry] of Object.entries(record.sent)) {
    const isGone = !current.has(key);
    if (isGone && isLost(entry, now)) {
      waits.push((entry.goneAt ?? now) + lostMs);
      if (entry.goneAt === undefined) steps.push({ key, channel: entry.channel, entry: { ...entry, goneAt: now } });
    } else if (isGone) {
      const isHeard = known.has(entry.channel);
      // A newer commit has a message of its own.
      const isNews = entry.kind !== "deploy" && !isKeptInRedis(entry.kind);
      steps.push(endOf(key, entry, { ...abilities, isHeard, isNews, lastSentAt, now }));
    }
    // A message that can no longer change needs no entry, unless the target has to be reminded of it.
    else if (entry.kind === "deploy" && !isFresh(entry, now) && !(needsSomebody(entry.state) && abilities.refreshMs))
      steps.push({ key, channel: entry.channel });
  }
  return { steps, seen, wakeAt: waits.length === 0 ? undefined : Math.min(...waits) };
}

interface Situation extends Abilities {
  readonly key: string;
  readonly channel: string | undefined;
  readonly entry: SentNotice | undefined;
  /** When the target was sent anything; 0: never. It tells apart two messages with the same content. */
  readonly lastSentAt: number;
  readonly now: number;
}

/** Whether to report something that is open; or when to look again. */
function nextOf(notice: Notice, { entry, edits, refreshMs, now }: Situation): boolean | number {
  // What the status does not say while a deployment is reconciled has not changed.
  if (notice.state === "progress") return false;
  if (entry === undefined) return true;
  const soonest = changeableAt(entry);
  if (isReminderDue(entry, refreshMs, now)) return true;
  if (entry.content !== undefined && entry.content === contentOf(notice, "open")) return false;
  if (hasNewNames(notice, entry)) return now < soonest ? soonest : true;
  if (!edits || entry.ref === undefined || !notice.settled || !isFresh(entry, now)) return false;
  return now < soonest ? soonest : true;
}

function toStep(
  notice: Notice,
  state: SentState,
  { key, channel, entry, edits, lastSentAt, now }: Situation,
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
      ...{ state, kind: notice.kind, at: next.at, notice, sent, object: next.object },
      id: digest(`${key} ${state} ${content} ${lastSentAt}`),
      announce: isOther && entry.content !== undefined && (state === "failed" || state === "recovered"),
    },
    entry: { ...next, content, sentAt: now, ...(sent !== undefined && { ref: sent }) },
  };
}

/** An entry serves to change or to repeat the message: other targets need none, because what they know is in `seen`. */
function toDeployStep({ notice, state, seen }: NonNullable<DeployFound["changed"]>, situation: Situation): NotifyStep {
  const step = toStep(notice, state, situation);
  const { edits, refreshMs } = situation;
  const keeps = step.message !== undefined && (edits || refreshMs !== undefined || state === "progress");
  return { ...step, entry: keeps ? step.entry : undefined, seen };
}

/** Reports of pull requests and webhooks can be lost with Redis. */
function isKeptInRedis(kind: SentNotice["kind"]): boolean {
  return kind === "preview" || kind === "webhooks";
}

/** Whether it may be known again soon. */
function isLost({ kind, goneAt }: SentNotice, now: number): boolean {
  return isKeptInRedis(kind) && now < (goneAt ?? now) + lostMs;
}

interface Ending extends Pick<Situation, "edits" | "lastSentAt" | "now"> {
  /** Whether the channel still hears of anything. */
  readonly isHeard: boolean;
  /** Whether it is worth a message where none can be changed. */
  readonly isNews: boolean;
}

/** Nothing is left of the subject: another commit came, or what was open is closed. */
function endOf(key: string, entry: SentNotice, { edits, isHeard, isNews, lastSentAt, now }: Ending): NotifyStep {
  const { kind, about, channel, content, ref, object } = entry;
  const isOpen = needsSomebody(entry.state) || entry.state === "progress";
  const sent = edits ? ref : undefined;
  const isTold = content !== undefined && isOpen && isHeard && (sent !== undefined || isNews);
  if (!isTold) return { key, channel };
  const title = endTitle(kind, about);
  const message: StepMessage = {
    ...{ title, kind, state: "closed", severity: severityOf("closed", []), sent, object, at: now },
    ...{ lines: [], linesLeftOut: 0, succeeded: 0 },
    id: digest(`${key} closed ${content} ${lastSentAt}`),
    announce: false,
  };
  return { key, channel, message };
}

function isFresh(entry: SentNotice | undefined, now: number): boolean {
  return entry !== undefined && now <= entry.at + editableMs;
}

function needsSomebody(state: NoticeState): boolean {
  return state === "failed" || state === "open";
}

/** Names that a record had no room for count as known. */
function hasNewNames(notice: Notice, { names }: SentNotice): boolean {
  if (names === undefined || names.length >= mostNames) return false;
  const known = new Set(names);
  return namesOf(notice).some((name) => !known.has(name));
}

function entryOf(notice: Notice, state: SentState, channel: string | undefined, at: number): SentNotice {
  const isOfDeployment = notice.kind !== "preview" && notice.kind !== "webhooks" && notice.kind !== "login";
  const object = isOfDeployment ? objectOf(notice.deployments[0]) : undefined;
  return {
    ...{ kind: notice.kind, state, at, about: notice.about },
    ...(object && { object }),
    ...(notice.kind !== "deploy" && { names: namesOf(notice) }),
    ...(channel !== undefined && { channel }),
  };
}

function namesOf({ lines }: Notice): string[] {
  const needing = lines.filter(({ state }) => state !== "succeeded" && state !== "progress");
  return needing.slice(0, mostNames).map(({ name }) => digest(name).slice(0, 8));
}

function eventOf({ kind }: Notice, state: SentState): NoticeEvent {
  if (kind !== "deploy") return kind;
  return state === "progress" ? "started" : state === "open" ? "failed" : state;
}

function keyOf(channel: string | undefined, subject: string): string {
  return digest(JSON.stringify([channel ?? "", subject]));
}
