/** Brings a target in line with what is true now. Safe to repeat; at most one job per target runs at a time. */
import type { NotificationsConfig, TargetConfig } from "../../config.ts";
import { isDeepStrictEqual } from "node:util";
import { ApiError, NotifyError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import {
  type AnyDeployment,
  followsGit,
  type NotifyRequest,
  type Outcome,
  type RepoId,
  type SentRecord,
  slotOf,
} from "../../model.ts";
import type { Clock, Deployments, Notifier, SentNotifications, SentVersion } from "../../ports.ts";
import { digestsOf } from "./digests.ts";
import { holdBack } from "./holding.ts";
import { type Notice, noticesOf } from "./notices.ts";
import { type NotificationDeps, toNotification } from "./notification.ts";
import { firstRecord, planSteps, type NotifyStep, type StepMessage } from "./planning.ts";
import { withinHour, withoutPast, withSteps } from "./recording.ts";
import { destinationsOf } from "./routing.ts";

export interface NotifyDeps extends NotificationDeps {
  readonly config: () => NotificationsConfig;
  /** `undefined` if there is no such target any more. */
  readonly notifierOf: (target: string) => Promise<Notifier | undefined>;
  readonly deployments: Pick<Deployments, "all"> & { synced(): boolean };
  /** What is true apart from the deployments. */
  readonly otherNotices: (deployments: readonly AnyDeployment[]) => Promise<readonly Notice[]>;
  readonly record: SentNotifications;
  /** Requests the target again after this time. */
  readonly again: (target: string, afterMs: number) => void;
  /** Names this process. */
  readonly identity: string;
  readonly observe: (target: string, result: "sent" | "changed" | "later" | "refused") => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const notSyncedMs = 1_000;
/** Longer than a request may take: whoever began to send has died since. */
const sendingMs = 60_000;
/** A message that may have been sent is sent once more, and not again. */
const mostAttempts = 2;
/** After a refusal, which only a person can mend. */
const refusedMs = 10 * 60_000;
/** After no answer. */
const laterMs = 15_000;
/** The API server is away, another server has just written, or the server lacks a right. */
const unrecordedMs = 5_000;
/** Messages that are kept for people who ask what was sent. */
const mostRecent = 20;
/** So many channels without an answer in one run, or refusals by one channel: the rest waits for the next run. */
const mostSilent = 2;

interface Work {
  readonly settings: TargetConfig;
  readonly notifier: Notifier;
  /** As it was last written. */
  readonly kept: { record: SentRecord; version: SentVersion };
  readonly signal: AbortSignal;
}

export function createNotify(deps: NotifyDeps) {
  const { deployments, clock, log } = deps;

  /** Why the record of a target cannot be read or written, once it has been logged. */
  const unrecorded = new Map<string, string>();

  return async function notify(request: NotifyRequest, signal: AbortSignal): Promise<Outcome> {
    const { target } = request;
    try {
      const outcome = await bringInLine(request, signal);
      unrecorded.delete(target);
      return outcome;
    } catch (error) {
      if (!(error instanceof ApiError) || signal.aborted) throw error;
      // Without the record, everything would be sent again.
      const { message } = error;
      if (unrecorded.get(target) !== message)
        log.warn({ target, error: message }, "cannot record notifications, so none are sent");
      unrecorded.set(target, message);
      return later(unrecordedMs, message);
    }
  };

  async function bringInLine({ target }: NotifyRequest, signal: AbortSignal): Promise<Outcome> {
    const config = deps.config();
    const settings = config.targets.find(({ id }) => id === target);
    const notifier = await deps.notifierOf(target);
    if (settings === undefined || notifier === undefined)
      return { kind: "skipped", why: "the target is no longer configured" };
    // Deployments that are not loaded yet would appear to be gone.
    if (!deployments.synced()) return later(notSyncedMs, "the deployments are not loaded yet");
    const kept = await deps.record.read(target, signal);
    const channels = await readChannels(target, config, notifier.refreshMs !== undefined);
    if (kept === undefined) {
      await deps.record.write(target, firstRecord(channels, notifier, clock.now()), undefined, signal);
      return { kind: "done" };
    }
    const { sending } = kept.record;
    if (sending !== undefined && sending.by !== deps.identity && clock.now() < sending.at + sendingMs)
      return later(sending.at + sendingMs - clock.now(), "another server is sending to it");

    const before = kept.record;
    const plan = planSteps(before, channels, notifier, clock.now());
    const { single, joined, held, wakeAt } = holdBack(plan.steps, before, settings, notifier, clock.now());
    const messages = [
      ...single.flatMap((step) => (step.message ? [{ message: step.message, steps: [step] }] : [])),
      ...digestsOf(joined, clock.now()),
    ];
    kept.record = {
      ...withoutPast(before, channels, messages),
      ...{ seen: plan.seen, held: held.length > 0 },
    };
    const silently = single.filter(({ message }) => message === undefined);
    kept.record = withSteps(kept.record, silently);
    const work = { settings, notifier, kept, signal };
    const written = kept.version;
    const silent = new Map<string, number>();
    for (const { message, steps } of messages) {
      const slot = slotOf(steps[0]?.channel);
      // The target itself seems to be the problem.
      if (silent.size >= mostSilent || (silent.get(slot) ?? 0) >= mostSilent) continue;
      const came = await deliver(message, steps, work);
      if (came !== "sent") silent.set(slot, (silent.get(slot) ?? 0) + (came === "late" ? mostSilent : 1));
    }
    if (kept.version === written && !isDeepStrictEqual(kept.record, before)) await save(work, {});
    const { late = {}, refused = {} } = kept.record;
    const retries = [...Object.values(late), ...Object.values(refused)].map(({ until }) => until);
    const times = [plan.wakeAt, wakeAt, ...retries].filter((at) => at !== undefined);
    if (times.length > 0) deps.again(target, Math.max(Math.min(...times) - clock.now(), notSyncedMs));
    return { kind: "done" };
  }

  async function readChannels(target: string, config: NotificationsConfig, bySource: boolean) {
    const all = deployments.all();
    const destinations = destinationsOf(target, config, all);
    const others = await deps.otherNotices(all);
    return destinations.map(({ channel, subscriptions }) => {
      const selected = new Map(subscriptions.map(({ deployment, events }) => [deployment, events]));
      const hears = ({ kind, deployments: about }: Notice) =>
        about.some((deployment) => selected.get(deployment)?.has(kind === "deploy" ? "failed" : kind));
      // A git host has repositories that these deployments do not follow.
      const repos = new Set(subscriptions.flatMap(({ deployment }) => (followsGit(deployment) ? deployment.repo : [])));
      const theirs = others
        .filter(hears)
        .map((notice) =>
          notice.kind === "webhooks"
            ? { ...notice, lines: notice.lines.filter(({ name }) => repos.has(name as RepoId)) }
            : notice,
        );
      return { channel, notices: [...noticesOf(subscriptions, clock.now(), bySource), ...theirs] };
    });
  }

  /**
   * Records the message before and after it is sent, so that a crash in between repeats it once at most. A channel that does
   * not answer holds up no other channel, and a message that is refused no other message.
   */
  async function deliver(
    message: StepMessage,
    steps: readonly NotifyStep[],
    work: Work,
  ): Promise<"sent" | "late" | "refused"> {
    const { settings, notifier, kept, signal } = work;
    const { id: target } = settings;
    const { channel, key = "" } = steps[0] ?? {};
    const slot = slotOf(channel);
    if (clock.now() < (kept.record.late?.[slot]?.until ?? 0)) return "late";
    if (clock.now() < (kept.record.refused?.[key]?.until ?? 0)) return "sent";
    const { sending } = kept.record;
    const attempts = sending?.id === message.id ? sending.attempts : 0;
    let ref = message.sent;
    if (attempts < mostAttempts) {
      const notification = await toNotification(message, steps, deps);
      const mark = { id: message.id, by: deps.identity, at: clock.now(), attempts: attempts + 1 };
      await save(work, { sending: mark });
      const { sent, announce } = message;
      try {
        ref = await notifier.send(notification, { sent, announce, channel, signal });
      } catch (error) {
        signal.throwIfAborted();
        return await recordTrouble(error as Error, { key, channel }, work);
      }
      deps.observe(target, sent === undefined ? "sent" : "changed");
      const how = sent === undefined ? "notified" : "notification changed";
      log.info({ target, id: message.id, title: message.title }, how);
    }
    kept.record = withSteps(kept.record, steps, { ref: steps.length === 1 ? ref : undefined });
    const now = clock.now();
    const hour = withinHour(kept.record.hour, now, message.sent === undefined ? slot : undefined);
    const { title, severity } = message;
    const recent = [{ at: now, title, severity }, ...(kept.record.recent ?? [])].slice(0, mostRecent);
    const { [slot]: _late, ...late } = kept.record.late ?? {};
    const { [key]: _refused, ...refused } = kept.record.refused ?? {};
    // Recorded also if the server is told to stop in between.
    const { signal: _signal, ...unstoppable } = work;
    await save(unstoppable, { sending: undefined, late, refused, lastSentAt: now, hour, recent });
    return "sent";
  }

  async function save(
    { settings, kept, signal }: Omit<Work, "notifier" | "signal"> & Partial<Work>,
    own: Partial<SentRecord>,
  ) {
    kept.record = { ...kept.record, ...own };
    kept.version = await deps.record.write(settings.id, kept.record, kept.version, signal);
  }

  async function recordTrouble(
    error: Error,
    { key, channel }: Pick<NotifyStep, "key" | "channel">,
    work: Work,
  ): Promise<"late" | "refused"> {
    const { settings, kept } = work;
    const { id: target } = settings;
    const isKnown = error instanceof NotifyError;
    const isLate = isKnown && error.problem === "later";
    const message = isKnown ? error.message : "the message could not be made: the log has the details";
    deps.observe(target, isLate ? "later" : "refused");
    const { late = {}, refused = {} } = kept.record;
    const before = isLate ? late[slotOf(channel)] : refused[key];
    if (!isKnown) log.error({ target, channel, err: error }, "could not make a notification");
    else if (before?.message !== message)
      log.warn(
        { target, channel, error: message },
        isLate ? "target does not answer" : "target refused a notification",
      );
    const afterMs = isLate ? Math.max(error.retryAfterMs ?? laterMs, notSyncedMs) : refusedMs;
    const now = clock.now();
    const next = {
      since: before?.since ?? now,
      until: now + afterMs,
      message,
      ...(channel !== undefined && { channel }),
    };
    if (isLate) await save(work, { sending: undefined, late: { ...late, [slotOf(channel)]: next } });
    else {
      // Whoever refuses answers.
      const { [slotOf(channel)]: _late, ...others } = late;
      await save(work, { sending: undefined, late: others, refused: { ...refused, [key]: next } });
    }
    return isLate ? "late" : "refused";
  }
}

const later = (afterMs: number, why: string): Outcome => ({ kind: "later", afterMs, why });
