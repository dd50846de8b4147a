/**
 * Who is next in a lane: the urgent before the less urgent, and among equals each repository in turn (start-time fair
 * queuing), so that one push to a repository with 500 deployments delays nobody else by more than the jobs that run
 * already.
 *
 * A job's rank is its place in its repository's own line, counted from where the service is now. One that took long the
 * last times takes as many places as it took seconds, so that repositories share the time and not the number of jobs,
 * and short jobs do not wait behind long ones; yet every rank is reached in the end. BullMQ runs the lowest priority
 * number first, and keeps equal ones in order.
 *
 * What has waited for long moves up a class (aging.ts). There all such jobs have one line together, as if they were of one
 * repository: they have their turn, and do not hold up the pushes that they waited for.
 */
import type { Cause, PreviewCause, Request } from "../src/model.ts";
import type { Lane } from "./lanes.ts";
import { deduplicationId } from "./bullmq.ts";

/** What one class has room for; BullMQ's largest priority is 2^21, which is five of them. */
const step = 400_000;
/** However long it takes: nobody's turn is further away than this many short jobs of each other repository. */
const mostPlaces = 60;
/** Subjects whose durations are remembered; the ones that ran longest ago are forgotten first. */
const mostRemembered = 20_000;
/** Where nobody works, as on a standby that takes webhooks, nobody tells how far the service is: the lines begin anew. */
const forgottenAfterMs = 10 * 60_000;
/** Manual requests are alone in their lane. */
const deployClasses: Readonly<Record<Cause, number>> = {
  push: 0,
  manual: 0,
  change: 1,
  sweep: 1,
  drift: 1,
  interval: 2,
};
const previewClasses: Readonly<Record<PreviewCause, number>> = { "pull-request": 0, base: 1, sweep: 2 };

/** The lower, the sooner. To be compared within one lane. */
export function urgencyOf(request: Request): number {
  if (request.kind === "reconcile") return deployClasses[request.cause];
  // One that ended takes the place of one that waits.
  if (request.kind === "merge-group") return request.ended ? 0 : 1;
  return request.kind === "preview" ? previewClasses[request.cause] : 0;
}

/** Before all places of this urgency. */
export function firstPlaceOf(urgency: number): number {
  return urgency * step;
}

export function urgencyAt(priority: number): number {
  return Math.floor(priority / step);
}

/** Of two requests for one subject, the one to act on: the more urgent, else the later. */
export function moreUrgentOf(earlier: Request, later: Request): Request {
  return urgencyOf(earlier) < urgencyOf(later) ? earlier : later;
}

/** One for each lane, shared by the queue and the workers of a process. */
export type LaneFairness = Readonly<Record<Lane, Fairness>>;

export function createFairness(): LaneFairness {
  return {
    reconcile: new Fairness(),
    manual: new Fairness(),
    preview: new Fairness(),
    report: new Fairness(),
  };
}

export class Fairness {
  /** Per class: the rank of the job that was started last. */
  readonly #current = new Map<number, number>();
  /** Per class and repository: the last rank given out. */
  readonly #last = new Map<string, number>();
  /** Per subject: how many seconds it takes. */
  readonly #seconds = new Map<string, number>();
  /** When it was last known how far the service is. */
  #knownAt: number;
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
    this.#knownAt = now();
  }

  /** A place in the line, as BullMQ's priority: from 1, because BullMQ takes 0 for "before all others". */
  place(request: Request): number {
    const urgency = urgencyOf(request);
    return this.#place(urgency, lineOf(urgency, request), this.#placesOf(request));
  }

  /** The same for a job that waited for long where it was less urgent. */
  placeOfAged(urgency: number): number {
    return this.#place(urgency, `${urgency} aged`, 1);
  }

  #place(urgency: number, line: string, places: number): number {
    if (this.#now() - this.#knownAt > forgottenAfterMs) this.idle();
    const rank = Math.min(Math.max(this.#current.get(urgency) ?? 0, this.#last.get(line) ?? 0) + 1, step - 1);
    this.#last.set(line, Math.min(rank + places - 1, step - 1));
    return urgency * step + rank;
  }

  /** Gives back a place that no job took. In reverse order of taking, so that the line closes up. */
  giveBack(priority: number, request: Request): void {
    const line = lineOf(urgencyAt(priority), request);
    const rank = priority % step;
    if (this.#last.get(line) === Math.min(rank + this.#placesOf(request) - 1, step - 1)) this.#last.set(line, rank - 1);
  }

  /** Those that are wanted together: the short ones first. */
  shortestFirst<T>(all: readonly T[], requestOf: (one: T) => Request): T[] {
    return all.toSorted((a, b) => this.#placesOf(requestOf(a)) - this.#placesOf(requestOf(b)));
  }

  /** So long it took: half of that, and half of what was known, is what is expected from now on. */
  took(request: Request, seconds: number): void {
    const subject = deduplicationId(request);
    const known = this.#seconds.get(subject);
    this.#seconds.delete(subject);
    this.#seconds.set(subject, known === undefined ? seconds : (known + seconds) / 2);
    if (this.#seconds.size > mostRemembered) this.#seconds.delete(this.#seconds.keys().next().value as string);
  }

  #placesOf(request: Request): number {
    const seconds = this.#seconds.get(deduplicationId(request)) ?? 1;
    return Math.min(Math.max(Math.round(seconds), 1), mostPlaces);
  }

  /** A job was started: whoever joins from now on does so behind it, however long they have been away. */
  started(priority: number): void {
    const urgency = urgencyAt(priority);
    this.#current.set(urgency, Math.max(this.#current.get(urgency) ?? 0, priority % step));
    this.#knownAt = this.#now();
  }

  /** Nothing waits any more: everybody starts from the beginning. */
  idle(): void {
    this.#current.clear();
    this.#last.clear();
    this.#knownAt = this.#now();
  }
}

function lineOf(urgency: number, request: Request): string {
  return `${urgency} ${repositoryOf(request)}`;
}

function repositoryOf(request: Request): string {
  switch (request.kind) {
    case "reconcile":
      return request.repo ?? "";
    case "preview":
    case "report":
      return `${request.pullRequest.forge} ${request.pullRequest.repoName}`;
    case "merge-group":
      return `${request.group.forge} ${request.group.repoName}`;
    case "commit-status":
      return `${request.commit.forge} ${request.commit.repoName}`;
  }
}
