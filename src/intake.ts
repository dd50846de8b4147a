/** One event, from what a git host told us to what Redis remembers. */
import type { Logger } from "./log.ts";
import { type Ignored, match } from "./match.ts";
import { type Deployment, type GitEvent, type PushEvent, type RepoId } from "./model.ts";
import type { Clock, Deployments, Queue } from "./ports.ts";
import { repoId } from "./repo-url.ts";

/** What the sender is told. */
export interface Receipt {
  readonly delivery: string;
  /** How many deployments it concerns. */
  readonly matched: number;
  /** How many of them had no job waiting yet. */
  readonly queued: number;
  readonly ignored: readonly Ignored[];
  /** Why nothing was matched, unless `ignored` says it. */
  readonly reason?: string | undefined;
}

export type Accept = (event: GitEvent) => Promise<Receipt>;

export interface IntakeDeps {
  readonly tracking: Deployments["tracking"];
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** So many ignored deployments are named in a log line; the receipt has all of them. */
const maxLogged = 20;

/**
 * Resolves once Redis has everything; rejects with the queue's error if it has not.
 *
 * Deliveries are not remembered. One that comes twice makes at most one more job per deployment, which finds the
 * commit observed already and ends; while the first still waits it makes none. Remembering would have to go by the
 * host's delivery id, which no host signs and some share between deliveries, and would turn a redelivery away for
 * which Redis or a person has a reason.
 */
export function createIntake({ tracking, queue, log, clock = { now: () => Date.now() } }: IntakeDeps): Accept {
  async function acceptPush(event: PushEvent, receivedAt: number): Promise<Receipt> {
    const candidates = findCandidates(event, tracking);
    const { requests, ignored } = match(event, candidates);
    // First, so that no job of this push can be given an answer from before it. Also when every deployment ignores
    // the push: one of them may be reconciled for another reason, and has to see where the repository stands.
    await Promise.all(distinctRepos(candidates).map((repo) => queue.markMoved(repo)));
    const { queued } =
      requests.length === 0
        ? { queued: 0 }
        : await queue.enqueue(requests.map((request) => ({ ...request, receivedAt })));
    const reason = candidates.length === 0 ? "no deployment follows this repository" : undefined;
    return { delivery: event.delivery, matched: requests.length, queued, ignored, reason };
  }

  return async function accept(event) {
    const receivedAt = clock.now();
    const receipt =
      event.kind === "push"
        ? await acceptPush(event, receivedAt)
        : { delivery: event.delivery, matched: 0, queued: 0, ignored: [], reason: reasonForNothing(event) };
    const ms = Math.round(clock.now() - receivedAt);
    log.info({ ...describeEvent(event), ...describeReceipt(receipt), ms }, messageFor(event));
    return receipt;
  };
}

/** By the index, once per spelling that the payload offers; a deployment has one spelling, so it comes up once. */
function findCandidates(event: PushEvent, tracking: IntakeDeps["tracking"]): Deployment[] {
  const repos = new Set(event.repoUrls.map(repoId).filter((repo) => repo !== undefined));
  return [...repos].flatMap((repo) => tracking(repo));
}

function distinctRepos(deployments: readonly Deployment[]): RepoId[] {
  return [...new Set(deployments.map(({ repo }) => repo))];
}

function reasonForNothing(event: Exclude<GitEvent, PushEvent>): string {
  switch (event.kind) {
    case "ping":
      return "the webhook is set up";
    case "pull-request":
      return "pull requests are not previewed yet";
    case "irrelevant":
      return event.reason;
  }
}

function describeEvent(event: GitEvent) {
  const { delivery, forge, kind } = event;
  const repo = "repoName" in event ? event.repoName : undefined;
  return { delivery, forge, event: kind, repo, ref: event.kind === "push" ? event.ref : undefined };
}

function describeReceipt({ matched, queued, ignored, reason }: Receipt) {
  const named = ignored.slice(0, maxLogged).map(({ deployment, reason: why }) => [deployment, why] as const);
  return {
    matched,
    queued,
    ignored: named.length === 0 ? undefined : Object.fromEntries(named),
    ignoredMore: ignored.length > maxLogged ? ignored.length - maxLogged : undefined,
    reason,
  };
}

function messageFor(event: GitEvent): string {
  return event.kind === "irrelevant" ? "delivery ignored" : `${event.kind} accepted`;
}
