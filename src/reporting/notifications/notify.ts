/** Brings a target in line with what is true now. Safe to repeat; at most one job per target runs at a time. */
import type { NotificationsConfig, TargetConfig } from "../../config.ts";
import { ApiError, NotifyError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import {
  type AnyDeployment,
  followsGit,
  type GitDeployment,
  type NoticeLink,
  type Notification,
  type NotifyRequest,
  type Outcome,
  type SentNotice,
  type SentRecord,
} from "../../model.ts";
import type { Clock, Deployments, Notifier, SentNotifications, SentVersion } from "../../ports.ts";
import { holdBack } from "./holding.ts";
import { type Notice, noticesOf } from "./notices.ts";
import { firstRecord, planSteps, type NotifyStep, type StepMessage } from "./planning.ts";
import { destinationsOf } from "./routing.ts";

export interface NotifyDeps {
  readonly config: () => NotificationsConfig;
  /** `undefined` if there is no such target any more. */
  readonly notifierOf: (target: string) => Promise<Notifier | undefined>;
  readonly deployments: Pick<Deployments, "all"> & { synced(): boolean };
  /** What is true apart from the deployments. */
  readonly otherNotices: (deployments: readonly AnyDeployment[]) => Promise<readonly Notice[]>;
  readonly record: SentNotifications;
  /** With the login of that deployment, so that nobody learns more than what the deployment may read. */
  readonly describeCommit: (deployment: GitDeployment, commit: string) => Promise<CommitWords>;
  /** Public address of the page, without a slash at its end; `undefined`: none is known. */
  readonly pageUrl: () => string | undefined;
  readonly clusterName: () => Promise<string>;
  /** Requests the target again after this time. */
  readonly again: (target: string, afterMs: number) => void;
  /** Names this process. */
  readonly identity: string;
  readonly observe: (target: string, result: "sent" | "changed" | "later" | "refused") => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** What a message says about a commit; all of it may be unknown. */
export interface CommitWords {
  readonly title?: string | undefined;
  readonly author?: string | undefined;
  readonly url?: string | undefined;
  readonly pullRequest?: { readonly label: string; readonly url: string } | undefined;
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
const hourMs = 3_600_000;
/** Messages that are kept for people who ask what was sent. */
const mostRecent = 20;

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
    const trouble = kept?.record.trouble;
    if (trouble !== undefined && clock.now() < trouble.until)
      return later(trouble.until - clock.now(), trouble.message);

    const channels = await readChannels(target, config);
    if (kept === undefined) {
      await deps.record.write(target, firstRecord(channels, notifier, clock.now()), undefined, signal);
      return { kind: "done" };
    }
    const { sending } = kept.record;
    if (sending !== undefined && sending.by !== deps.identity && clock.now() < sending.at + sendingMs)
      return later(sending.at + sendingMs - clock.now(), "another server is sending to it");

    const plan = planSteps(kept.record, channels, notifier, clock.now());
    const { single, joined, held, wakeAt } = holdBack(plan.steps, kept.record, settings, notifier, clock.now());
    const isAltered = plan.known.length !== kept.record.known.length || held.length > 0 !== (kept.record.held ?? false);
    kept.record = { ...kept.record, known: [...plan.known], held: held.length > 0 };
    const silent = single.filter(({ message }) => message === undefined);
    for (const step of silent) kept.record = withStep(kept.record, step);
    const work = { settings, notifier, kept, signal };
    const messages = [
      ...single.flatMap((step) => (step.message ? [{ message: step.message, steps: [step] }] : [])),
      ...digestsOf(joined, clock.now()),
    ];
    try {
      for (const { message, steps } of messages) await deliver(message, steps, work);
      if (isAltered || silent.length > 0 || trouble !== undefined) await save(work, { trouble: undefined });
    } catch (error) {
      if (!(error instanceof NotifyError)) throw error;
      return await putOff(work, error);
    }
    const retries = Object.values(kept.record.refused ?? {}).map(({ until }) => until);
    const times = [plan.wakeAt, wakeAt, ...retries].filter((at) => at !== undefined);
    if (times.length > 0) deps.again(target, Math.max(Math.min(...times) - clock.now(), notSyncedMs));
    return { kind: "done" };
  }

  async function readChannels(target: string, config: NotificationsConfig) {
    const all = deployments.all();
    const destinations = destinationsOf(target, config, all);
    const others = await deps.otherNotices(all);
    return destinations.map(({ channel, subscriptions }) => {
      const selected = new Map(subscriptions.map(({ deployment, events }) => [deployment, events]));
      const hears = ({ kind, deployments: about }: Notice) =>
        about.some((deployment) => selected.get(deployment)?.has(kind === "deploy" ? "failed" : kind));
      return { channel, notices: [...noticesOf(subscriptions, clock.now()), ...others.filter(hears)] };
    });
  }

  /**
   * Records the message before and after it is sent, so that a crash in between repeats it once at most. A channel that
   * refuses it holds up no other channel.
   */
  async function deliver(message: StepMessage, steps: readonly NotifyStep[], work: Work): Promise<void> {
    const { settings, notifier, kept, signal } = work;
    const { id: target } = settings;
    const channel = steps[0]?.channel;
    const refusal = kept.record.refused?.[channel ?? ""];
    if (refusal !== undefined && clock.now() < refusal.until) return;
    const { sending } = kept.record;
    const attempts = sending?.id === message.id ? sending.attempts : 0;
    let ref = message.sent;
    if (attempts < mostAttempts) {
      const notification = await toNotification(message, steps);
      const mark = { id: message.id, by: deps.identity, at: clock.now(), attempts: attempts + 1 };
      await save(work, { sending: mark });
      const { sent, announce } = message;
      try {
        ref = await notifier.send(notification, { sent, announce, channel, signal });
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof NotifyError && error.problem === "later") throw error;
        return await recordRefusal(channel ?? "", error as Error, work);
      }
      deps.observe(target, sent === undefined ? "sent" : "changed");
      const how = sent === undefined ? "notified" : "notification changed";
      log.info({ target, id: message.id, title: message.title }, how);
    }
    for (const step of steps) kept.record = withStep(kept.record, step, { ref: steps.length === 1 ? ref : undefined });
    const now = clock.now();
    const isNew = message.sent === undefined;
    const hour = withinHour(kept.record.hour, now, isNew ? (channel ?? "") : undefined);
    const { title, severity } = message;
    const recent = [{ at: now, title, severity }, ...(kept.record.recent ?? [])].slice(0, mostRecent);
    const { [channel ?? ""]: _, ...refused } = kept.record.refused ?? {};
    // Recorded also if the server is told to stop in between.
    const { signal: _signal, ...unstoppable } = work;
    await save(unstoppable, { sending: undefined, trouble: undefined, refused, lastSentAt: now, hour, recent });
  }

  async function save(
    { settings, kept, signal }: Omit<Work, "notifier" | "signal"> & Partial<Work>,
    own: Partial<SentRecord>,
  ) {
    kept.record = { ...kept.record, ...own };
    kept.version = await deps.record.write(settings.id, kept.record, kept.version, signal);
  }

  /** The target answers, so others can be sent: a person has to change something about this channel or message. */
  async function recordRefusal(channel: string, error: Error, work: Work): Promise<void> {
    const { settings, kept } = work;
    const { id: target } = settings;
    const isKnown = error instanceof NotifyError;
    const message = isKnown ? error.message : "the message could not be made: the log has the details";
    deps.observe(target, "refused");
    const { refused = {} } = kept.record;
    const before = refused[channel];
    if (!isKnown) log.error({ target, channel, err: error }, "could not make a notification");
    else if (before?.message !== message)
      log.warn({ target, channel, error: message }, "target refused a notification");
    const next = { since: before?.since ?? clock.now(), until: clock.now() + refusedMs, message };
    await save(work, { sending: undefined, refused: { ...refused, [channel]: next } });
  }

  async function putOff(work: Work, { message, retryAfterMs = laterMs }: NotifyError): Promise<Outcome> {
    const { settings, kept } = work;
    const { id: target } = settings;
    deps.observe(target, "later");
    const afterMs = Math.max(retryAfterMs, notSyncedMs);
    const known = kept.record.trouble;
    const trouble = { since: known?.since ?? clock.now(), until: clock.now() + afterMs, message };
    await save(work, { sending: undefined, trouble });
    if (known?.message !== message) log.warn({ target, error: message }, "target does not answer");
    return later(afterMs, message);
  }

  async function toNotification(message: StepMessage, steps: readonly NotifyStep[]): Promise<Notification> {
    const { id, state, kind, severity, title, lines, linesLeftOut, succeeded, at, notice, object } = message;
    const { commit } = notice ?? {};
    const follower = notice?.deployments.find((one) => followsGit(one));
    const said = follower && commit ? await deps.describeCommit(follower, commit) : {};
    const facts = [
      ...(commit ? [{ label: "Commit", value: [commit.slice(0, 7), said.title].filter(Boolean).join(" ") }] : []),
      ...(said.author ? [{ label: "Author", value: said.author }] : []),
      ...(succeeded > 0 ? [{ label: "Succeeded", value: inDeployments(succeeded) }] : []),
    ];
    const links = [
      ...(said.url ? [{ label: "Commit", url: said.url }] : []),
      ...(said.pullRequest ? [said.pullRequest] : []),
      ...(notice?.url ? [{ label: "Pull request", url: notice.url }] : []),
      ...linkToPage(deps.pageUrl(), message),
    ];
    return {
      ...{ id, state, kind, severity, title, lines, linesLeftOut, facts, links, at },
      thread: steps.length === 1 ? (steps[0]?.key ?? id) : id,
      object,
      cluster: await deps.clusterName(),
    };
  }
}

const later = (afterMs: number, why: string): Outcome => ({ kind: "later", afterMs, why });

/** `ref`: what identifies the message from now on; absent if nothing was sent. */
function withStep(
  record: SentRecord,
  { key, entry }: NotifyStep,
  sent?: { readonly ref: string | undefined },
): SentRecord {
  const { [key]: _, ...others } = record.sent;
  if (entry === undefined) return { ...record, sent: others };
  const { ref: before, ...rest } = entry;
  const ref = sent === undefined ? before : sent.ref;
  const next: SentNotice = { ...rest, ...(ref !== undefined && { ref }) };
  return { ...record, known: record.known.filter((one) => one !== key), sent: { ...others, [key]: next } };
}

/** Where the page shows it: a commit in all its deployments, or the deployment that needs somebody. */
function linkToPage(pageUrl: string | undefined, { notice, kind }: StepMessage): NoticeLink[] {
  if (pageUrl === undefined || notice === undefined) return [];
  const [first, ...others] = notice.deployments;
  if (kind === "webhooks") return [{ label: "Deliveries", url: `${pageUrl}/#/deliveries` }];
  if (kind === "preview") return [{ label: "Pull requests", url: `${pageUrl}/#/pull-requests` }];
  if (kind === "deploy" && notice.commit !== undefined && others.length > 0)
    return [{ label: "Rollout", url: `${pageUrl}/#/commit/${encodeURIComponent(notice.commit)}` }];
  const path = others.length === 0 && first ? `/${first.key.namespace}/${first.key.name}` : "";
  return [{ label: path === "" ? "Deployments" : "Deployment", url: `${pageUrl}/#/deployments${path}` }];
}

/** What was sent within the last hour, and now to that channel. */
function withinHour(hour: SentRecord["hour"], now: number, channel: string | undefined): SentRecord["hour"] {
  const added = channel === undefined ? hour : { ...hour, [channel]: [...(hour[channel] ?? []), now] };
  return Object.fromEntries(
    Object.entries(added).flatMap(([name, times]) => {
      const recent = times.filter((at) => at > now - hourMs);
      return recent.length > 0 ? [[name, recent]] : [];
    }),
  );
}

function inDeployments(count: number): string {
  return `${count} deployment${count === 1 ? "" : "s"}`;
}

const rank = { error: 0, warning: 1, info: 2 };
const mostTitles = 20;

/** One message for each channel, with the titles of what it takes the place of. */
function digestsOf(
  joined: readonly NotifyStep[],
  now: number,
): { message: StepMessage; steps: readonly NotifyStep[] }[] {
  const groups = Map.groupBy(joined, ({ channel }) => channel);
  return [...groups.values()].flatMap((steps) => {
    const messages = steps
      .flatMap(({ message }) => message ?? [])
      .toSorted((a, b) => rank[a.severity] - rank[b.severity]);
    const [worst, ...others] = messages;
    if (worst === undefined) return [];
    if (others.length === 0) return [{ message: worst, steps }];
    const failed = messages.filter(({ severity }) => severity === "error").length;
    const lines = messages.map(({ title, severity, state }) => ({
      name: title,
      state:
        severity === "error" ? ("failed" as const) : state === "open" ? ("waiting" as const) : ("succeeded" as const),
      text: "",
    }));
    const message: StepMessage = {
      ...{ kind: worst.kind, state: worst.state, severity: worst.severity, announce: false, at: now },
      id: messages
        .map(({ id }) => id)
        .join("")
        .slice(0, 120),
      title: `${messages.length} notifications${failed > 0 ? `, ${failed} about ${failed === 1 ? "a failure" : "failures"}` : ""}`,
      lines: lines.slice(0, mostTitles),
      linesLeftOut: Math.max(0, lines.length - mostTitles),
      succeeded: 0,
    };
    return [{ message, steps }];
  });
}
