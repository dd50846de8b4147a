/**
 * Decides what is new about a commit. The record has one word for each deployment of which a channel hears: which deploy of it was
 * reported, and whether it was reported as failing. So a failure that later commits carry along is no news, and a recovery is
 * news whichever commit brings it. Pure.
 */
import { failing, isReportedFailure, type SentNotice, type SentRecord, type SentState } from "../../model.ts";
import type { Abilities } from "./abilities.ts";
import { changeableAt, contentOf, isReminderDue } from "./content.ts";
import { digest } from "./digest.ts";
import type { Member } from "./members.ts";
import type { Notice } from "./notices.ts";

export interface DeployFound {
  /** What the record has of these deployments, or has now because it is no news. */
  readonly seen: Readonly<Record<string, string>>;
  readonly wakeAt?: number | undefined;
  /** What to send, or to change; `seen` is recorded once that is done. */
  readonly changed?:
    { readonly notice: Notice; readonly state: SentState; readonly seen: Readonly<Record<string, string>> } | undefined;
}

interface DeploySituation extends Abilities {
  readonly record: Pick<SentRecord, "seen">;
  readonly channel: string | undefined;
  readonly entry: SentNotice | undefined;
  /** Whether the message of the entry may still be changed. */
  readonly isFresh: boolean;
  readonly now: number;
}

/** The deployments of one push end one after the other. */
const quietMs = 5_000;
/** How long a target whose messages cannot be changed waits for the rest of a push that has failed somewhere. */
const patienceMs = 2 * 60_000;
/** Whoever deploys again and again must not put off what others wait for. */
const longestQuietMs = 15 * 60_000;
/** What was deployed earlier is no news to a channel that has just begun to hear of the deployment. */
const newsMs = 15 * 60_000;

/** What is true of them is no news. Without `failures`, those that fail are left out. */
export function firstSeen(
  channel: string | undefined,
  notices: readonly Notice[],
  failures: boolean,
): Record<string, string> {
  const members = notices.flatMap((notice) => notice.members).filter(({ state }) => failures || state !== "failed");
  return Object.fromEntries(members.map((member) => [seenKey(channel, member), wordOf(member)]));
}

export function planDeploy(notice: Notice, situation: DeploySituation): DeployFound {
  const { record, channel, entry, edits, refreshMs, now } = situation;
  const seen: Record<string, string> = {};
  const [broken, mended, deployed]: [Member[], Member[], Member[]] = [[], [], []];
  for (const member of notice.members) {
    const key = seenKey(channel, member);
    const before = Object.hasOwn(record.seen, key) ? record.seen[key] : undefined;
    if (before !== undefined) seen[key] = before;
    const isWell = member.state === "succeeded" || member.state === "healthy";
    if (member.state === "failed" && !(before !== undefined && isReportedFailure(before))) broken.push(member);
    else if (isWell && before !== undefined && isReportedFailure(before)) mended.push(member);
    else if (member.state === "succeeded" && before !== wordOf(member)) {
      if (before === undefined && member.deployedAt < now - newsMs) seen[key] = wordOf(member);
      else deployed.push(member);
    } else if (isWell && before !== wordOf(member)) seen[key] = wordOf(member);
  }
  const hasFailed = notice.members.some(({ state }) => state === "failed");
  const isMoving = notice.members.some(({ state }) => state === "progress");
  const learnt = (members: readonly Member[]) =>
    Object.fromEntries(members.map((member) => [seenKey(channel, member), wordOf(member)]));
  const untils = notice.members.flatMap(({ until }) => until ?? []);
  const wakeAt = untils.length === 0 ? undefined : Math.min(...untils);
  const wait = (until: number): DeployFound => ({ seen, wakeAt: Math.min(until, wakeAt ?? Infinity) });

  if (broken.length > 0) {
    const { firstAt } = timesOf(broken, now);
    const until = firstAt + (isMoving && !edits ? patienceMs : quietMs);
    if (now < until) return wait(until);
    const failed = notice.members.filter(({ state }) => state === "failed");
    return { seen, wakeAt, changed: { notice, state: "failed", seen: learnt([...failed, ...deployed]) } };
  }
  if (mended.length + deployed.length > 0 && !isMoving) {
    const { firstAt, lastAt } = timesOf([...mended, ...deployed], now);
    const until = Math.min(lastAt + quietMs, firstAt + longestQuietMs);
    if (now < until) return wait(until);
    const state = mended.length > 0 && !hasFailed ? "recovered" : "succeeded";
    const news = [...mended, ...deployed];
    return { seen, wakeAt, changed: { notice: withNews(notice, mended), state, seen: learnt(news) } };
  }
  if (entry === undefined) {
    const isNews = isMoving && notice.events.has("started") && notice.members.every(({ state }) => state !== "failed");
    return isNews && !isOnlyChecked(notice, record, channel)
      ? { seen, wakeAt, changed: { notice, state: "progress", seen: {} } }
      : { seen, wakeAt };
  }
  const { state } = entry;
  if (state === "open" || (state === "failed") !== hasFailed) return { seen, wakeAt };
  if (state === "failed" && isReminderDue(entry, refreshMs, now))
    return { seen, wakeAt, changed: { notice, state, seen: {} } };
  // A retry in progress has mended nothing yet.
  const isTold = entry.content === contentOf(notice, state) || (state !== "progress" && !notice.settled);
  if (isTold || !edits || entry.ref === undefined || !situation.isFresh) return { seen, wakeAt };
  const soonest = changeableAt(entry);
  return now < soonest ? wait(soonest) : { seen, wakeAt, changed: { notice, state, seen: {} } };
}

/** A validation that is due makes no news of a deploy that was reported long ago. */
function isOnlyChecked(notice: Notice, record: Pick<SentRecord, "seen">, channel: string | undefined): boolean {
  const moving = notice.members.filter(({ state }) => state === "progress");
  return moving.every((member) => {
    const before = record.seen[seenKey(channel, member)];
    return before !== undefined && before === wordOf({ ...member, state: "healthy" }) && member.deploy !== "";
  });
}

/** A deployment that is well again is named, also if this commit changed nothing in it. */
function withNews(notice: Notice, mended: readonly Member[]): Notice {
  const quiet = mended.filter(({ state }) => state === "healthy");
  const lines = quiet.map(({ name }) => ({ name, state: "succeeded" as const, text: "" }));
  return {
    ...notice,
    lines: [...notice.lines, ...lines],
    unchanged: notice.unchanged - lines.length,
    deployments: [...notice.deployments, ...quiet.map(({ deployment }) => deployment)],
  };
}

/** A time in the future was written by somebody else, or by a clock that is ahead. */
function timesOf(members: readonly Member[], now: number): { readonly firstAt: number; readonly lastAt: number } {
  const past = members.map(({ at }) => at).filter((at) => at <= now);
  return past.length === 0 ? { firstAt: 0, lastAt: 0 } : { firstAt: Math.min(...past), lastAt: Math.max(...past) };
}

function seenKey(channel: string | undefined, { name }: Pick<Member, "name">): string {
  return digest(JSON.stringify(["member", channel ?? "", name]));
}

function wordOf({ state, deploy }: Pick<Member, "state" | "deploy">): string {
  const id = deploy === "" ? "" : digest(deploy).slice(0, 6);
  return state === "failed" ? `${failing}${id}` : id;
}
