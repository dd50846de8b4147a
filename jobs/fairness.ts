/**
 * The order of jobs in a lane: more urgent ones first, and among equals each repository in turn (start-time fair
 * queuing), so that a push to a repository with 500 deployments delays other repositories by no more than the jobs
 * already running.
 *
 * A job's rank is its place in its repository's own line, counted from the current position of the service. A job that
 * took long in the past takes as many places as it took seconds, so that repositories share time rather than the number
 * of jobs, and short jobs do not wait behind long ones; still, every rank is reached in the end. BullMQ runs the lowest
 * priority number first and keeps the order of equal ones.
 *
 * Jobs that have waited long move up a class (aging.ts). There, all of them share one line, as if they belonged to one
 * repository: they get their turn without delaying the pushes they waited for.
 */
import { createBoundedMap } from "../src/kit/bounded-map.ts";
import type { Cause, PreviewCause, Request } from "../src/model.ts";
import type { Lane } from "./lanes.ts";
import { deduplicationId } from "./bullmq.ts";

/** The number of ranks of a class; BullMQ's largest priority is 2^21, which is room for five classes. */
const step = 400_000;
/** The upper limit for slow jobs: a turn is never further away than this many short jobs of each other repository. */
const mostPlaces = 60;
/** Subjects whose durations are remembered; the least recently requested ones are evicted first. */
const mostRemembered = 20_000;
/**
 * A process without workers, such as a standby that accepts webhooks, does not learn the current position of the
 * service: after this time it starts its lines from the beginning.
 */
const forgottenAfterMs = 10 * 60_000;
/** Manual requests are alone in their lane. */
const deployClasses: Readonly<Record<Cause, number>> = {
  push: 0,
  include: 0,
  manual: 0,
  change: 1,
  sweep: 1,
  drift: 1,
  interval: 2,
};
const previewClasses: Readonly<Record<PreviewCause, number>> = {
  "pull-request": 0,
  base: 1,
  library: 1,
  cluster: 1,
  sweep: 2,
};

/** Lower is more urgent. Only comparable within one lane. */
export function urgencyOf(request: Request): number {
  if (request.kind === "reconcile") return deployClasses[request.cause];
  // An event that ends a group replaces a waiting one.
  if (request.kind === "merge-group") return request.ended ? 0 : 1;
  if (request.kind === "flux-fetch") return request.cause === "push" ? 0 : 1;
  return request.kind === "preview" ? previewClasses[request.cause] : 0;
}

/** The lowest priority number of this urgency. */
export function firstPlaceOf(urgency: number): number {
  return urgency * step;
}

export function urgencyAt(priority: number): number {
  return Math.floor(priority / step);
}

/** Which of two requests for one subject to act on: the more urgent one, or else the later one. */
export function moreUrgentOf(earlier: Request, later: Request): Request {
  return urgencyOf(earlier) < urgencyOf(later) ? earlier : later;
}

/** One per lane, shared by the queue and the workers of a process. */
export type LaneFairness = Readonly<Record<Lane, Fairness>>;

export function createFairness(): LaneFairness {
  return {
    reconcile: new Fairness(),
    manual: new Fairness(),
    preview: new Fairness(),
    report: new Fairness(),
    notify: new Fairness(),
    flux: new Fairness(),
  };
}

export class Fairness {
  /** Per class: the rank of the last started job. */
  readonly #current = new Map<number, number>();
  /** Per class and repository: the last assigned rank. */
  readonly #last = new Map<string, number>();
  /** Per subject: its expected duration in seconds. */
  readonly #seconds = createBoundedMap<number>({ entries: mostRemembered });
  /** When the position of the service was last known. */
  #knownAt: number;
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
    this.#knownAt = now();
  }

  /** Assigns a place in the line, as BullMQ's priority: starts at 1, because for BullMQ 0 means "before all others". */
  place(request: Request): number {
    const urgency = urgencyOf(request);
    return this.#place(urgency, lineOf(urgency, request), this.#placesOf(request));
  }

  /** Assigns a place to a job that has waited long in a less urgent class. */
  placeOfAged(urgency: number): number {
    return this.#place(urgency, `${urgency} aged`, 1);
  }

  #place(urgency: number, line: string, places: number): number {
    if (this.#now() - this.#knownAt > forgottenAfterMs) this.idle();
    const rank = Math.min(Math.max(this.#current.get(urgency) ?? 0, this.#last.get(line) ?? 0) + 1, step - 1);
    this.#last.set(line, Math.min(rank + places - 1, step - 1));
    return urgency * step + rank;
  }

  /** Returns a place that no job took. Call in reverse order of assignment, so that no gaps remain. */
  giveBack(priority: number, request: Request): void {
    const line = lineOf(urgencyAt(priority), request);
    const rank = priority % step;
    if (this.#last.get(line) === Math.min(rank + this.#placesOf(request) - 1, step - 1)) this.#last.set(line, rank - 1);
  }

  /** Sorts requests that arrive together by duration, shortest first. */
  shortestFirst<T>(all: readonly T[], requestOf: (one: T) => Request): T[] {
    return all.toSorted((a, b) => this.#placesOf(requestOf(a)) - this.#placesOf(requestOf(b)));
  }

  /** Records a duration: the expected duration becomes the mean of the previous expectation and this value. */
  took(request: Request, seconds: number): void {
    const subject = deduplicationId(request);
    const known = this.#seconds.get(subject);
    this.#seconds.set(subject, known === undefined ? seconds : (known + seconds) / 2);
  }

  #placesOf(request: Request): number {
    const seconds = this.#seconds.get(deduplicationId(request)) ?? 1;
    return Math.min(Math.max(Math.round(seconds), 1), mostPlaces);
  }

  /** Records that a job started: new requests are placed behind it, however long their repository was idle. */
  started(priority: number): void {
    const urgency = urgencyAt(priority);
    this.#current.set(urgency, Math.max(this.#current.get(urgency) ?? 0, priority % step));
    this.#knownAt = this.#now();
  }

  /** Call when no job waits: all lines start from the beginning. */
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
    case "notify":
      return request.target;
    case "flux-fetch":
      return request.source.namespace;
  }
}
