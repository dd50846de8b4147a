/**
 * Who is next: the urgent before the less urgent, and among equals each repository in turn (start-time fair queuing),
 * so that one push to a repository with 500 deployments delays nobody else by more than the jobs that run already.
 *
 * A job's rank is its place in its repository's own line, counted from where the service is now. BullMQ runs the
 * lowest priority number first, and keeps equal ones in order.
 */
import type { Cause } from "../src/model.ts";

/** 2 is for previews. A step is what one class has room for; BullMQ's largest priority is 2^21. */
const classes: Readonly<Record<Cause, number>> = { push: 0, manual: 1, change: 3, sweep: 3, interval: 4 };
const step = 400_000;

/** Of what is asked for two reasons, the one to act on: the more urgent, else the later. */
export function moreUrgentOf<R extends { readonly cause: Cause }>(earlier: R, later: R): R {
  return classes[earlier.cause] < classes[later.cause] ? earlier : later;
}

export function urgencyOf(priority: number): number {
  return Math.floor(priority / step);
}

export class Fairness {
  /** Per class: the rank of the job that was started last. */
  readonly #now = new Map<number, number>();
  /** Per class and repository: the last rank given out. */
  readonly #last = new Map<string, number>();

  /** A place in the line, as BullMQ's priority: from 1, because BullMQ takes 0 for "before all others". */
  place(cause: Cause, repo: string | undefined): number {
    const urgency = classes[cause];
    const line = lineOf(urgency, repo);
    const rank = Math.min(Math.max(this.#now.get(urgency) ?? 0, this.#last.get(line) ?? 0) + 1, step - 1);
    this.#last.set(line, rank);
    return urgency * step + rank;
  }

  /** Gives back a place that no job took. In reverse order of taking, so that the line closes up. */
  giveBack(priority: number, repo: string | undefined): void {
    const line = lineOf(urgencyOf(priority), repo);
    if (this.#last.get(line) === priority % step) this.#last.set(line, (priority % step) - 1);
  }

  /** A job was started: whoever joins from now on does so behind it, however long they have been away. */
  started(priority: number): void {
    const urgency = urgencyOf(priority);
    this.#now.set(urgency, Math.max(this.#now.get(urgency) ?? 0, priority % step));
  }

  /** Nothing waits any more: everybody starts from the beginning. */
  idle(): void {
    this.#now.clear();
    this.#last.clear();
  }
}

function lineOf(urgency: number, repo: string | undefined): string {
  return `${urgency} ${repo ?? ""}`;
}
