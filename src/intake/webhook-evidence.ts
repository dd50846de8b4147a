/** Whether webhooks of a repository arrive, judged by the pushes that the sweep saw, and what follows for the sweep. Pure. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { Pace } from "../model.ts";

export interface WebhookEvidence {
  /** Pushes in a row that a webhook reported. */
  readonly announced: number;
  /** When the newest of their deliveries arrived, epoch milliseconds. */
  readonly announcedAt: number;
  /** No webhook has arrived since a push that none had reported. */
  readonly isMissing: boolean;
}

export const noEvidence: WebhookEvidence = { announced: 0, announcedAt: -Infinity, isMissing: false };

/** One lost webhook means that as many have to arrive before the sweep relies on them again. */
const enough = 3;
/** A webhook that worked a day ago may have been removed since, and no push has shown it yet. */
const recentMs = 24 * 3_600_000;

/**
 * Judges pushes that the sweep saw at an earlier look, so that each webhook had at least one interval to arrive.
 * `latest`: the deliveries of the forges that may report about the repository.
 */
export function judgePushes(
  { announced, announcedAt, isMissing }: WebhookEvidence,
  commits: readonly string[],
  latest: readonly DeliveryRecord[],
): WebhookEvidence {
  const naming = commits.map((commit) => latest.find((delivery) => namesCommit(delivery, commit))?.at);
  const lost = naming.lastIndexOf(undefined);
  const since = naming.slice(lost + 1).filter((at) => at !== undefined);
  return {
    announced: (lost === -1 ? announced : 0) + since.length,
    announcedAt: Math.max(lost === -1 ? announcedAt : -Infinity, ...since),
    isMissing,
  };
}

/** Whether an authentic delivery reported this commit. */
export function namesCommit({ refused, commit, others = [] }: DeliveryRecord, wanted: string | undefined): boolean {
  return refused === undefined && wanted !== undefined && (commit === wanted || others.includes(wanted));
}

export function paceOf({ announced, announcedAt, isMissing }: WebhookEvidence, now: number): Pace {
  if (isMissing) return "often";
  return announced >= enough && now - announcedAt < recentMs ? "rarely" : "usual";
}

/** As often as git hosts without webhooks are asked. */
const oftenMs = 10_000;
/** What a lost webhook may cost at most where webhooks work; a longer configured interval stays what it is. */
const rarelyMs = 5 * 60_000;
/** A user who configures a short interval does not want to wait for minutes. */
const rarelyTimes = 5;

/** `usualMs`: the configured interval. */
export function intervalOf(pace: Pace, usualMs: number): number {
  switch (pace) {
    case "often":
      return Math.min(usualMs, oftenMs);
    case "usual":
      return usualMs;
    case "rarely":
      return Math.max(usualMs, Math.min(rarelyTimes * usualMs, rarelyMs));
  }
}
