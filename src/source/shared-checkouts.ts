/**
 * Shares one read-only checkout among all callers that want the same commit of the same repository. kluctl writes
 * nothing into a project, but a template may. So a checkout is compared when it is released; one that was modified is
 * not given to other callers, and checkouts of its repository are no longer shared.
 */
import { stat } from "node:fs/promises";
import type { Logger } from "../log.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { beforeAbort } from "../kit/deadline.ts";
import { removeDirectory } from "../kit/work-directories.ts";
import { fingerprint } from "./fingerprint.ts";

export interface SharedCheckouts {
  take(wanted: Wanted, signal: AbortSignal): Promise<TakenCheckout>;
  /** Removes those that were not used for a while; returns how many. */
  sweep(): Promise<number>;
}

export interface Wanted {
  /** Equal for the same remote with the same login. */
  readonly repository: string;
  /** The commit, and the mirror's state that it is cloned from. */
  readonly state: string;
  /** For messages. */
  readonly label: string;
  /** Returns the directory. */
  readonly make: (signal: AbortSignal) => Promise<string>;
}

export interface TakenCheckout {
  readonly root: string;
  /** May be called more than once. */
  release(): Promise<void>;
}

export interface SharedCheckoutsDeps {
  /** How long an unused checkout is kept for later callers. */
  readonly idleMs: number;
  /** How many unused checkouts are kept; the most recently used ones. */
  readonly mostIdle: number;
  readonly log: Logger;
}

interface Made {
  readonly root: string;
  readonly print: string;
}

interface Entry {
  readonly wanted: Wanted;
  readonly making: Promise<Made>;
  readonly controller: AbortController;
  users: number;
  idleSince: number;
  looking: Promise<void> | undefined;
}

/** Number of repositories remembered whose templates write into the checkout. */
const mostUnshared = 1_000;

export function createSharedCheckouts({ idleMs, mostIdle, log }: SharedCheckoutsDeps): SharedCheckouts {
  const entries = new Map<string, Entry>();
  const unshared = createBoundedMap<true>({ entries: mostUnshared });

  const keyOf = ({ repository, state }: Wanted) => `${repository} ${state}`;

  function open(wanted: Wanted): Entry {
    const controller = new AbortController();
    const making = wanted.make(controller.signal).then(async (root) => ({ root, print: await fingerprint(root) }));
    const entry: Entry = { wanted, making, controller, users: 0, idleSince: 0, looking: undefined };
    if (!unshared.get(wanted.repository)) entries.set(keyOf(wanted), entry);
    making.catch(() => forget(entry));
    return entry;
  }

  /** Stops sharing it; its last user removes it. */
  function forget(entry: Entry): void {
    if (entries.get(keyOf(entry.wanted)) === entry) entries.delete(keyOf(entry.wanted));
  }

  function isShared(entry: Entry): boolean {
    return entries.get(keyOf(entry.wanted)) === entry;
  }

  async function remove(entry: Entry): Promise<void> {
    forget(entry);
    const made = await entry.making.catch(() => undefined);
    // The work is done by then, and a remaining directory is swept at the next start.
    if (made) {
      await removeDirectory(made.root).catch((err: unknown) =>
        log.warn({ err, root: made.root }, "could not remove a checkout"),
      );
    }
  }

  async function leave(entry: Entry): Promise<void> {
    entry.users--;
    if (entry.users > 0) return;
    if (!isShared(entry)) return remove(entry);
    entry.idleSince = performance.now();
    const idle = [...entries.values()].filter(({ users }) => users === 0);
    idle.sort((a, b) => b.idleSince - a.idleSince);
    // Older states of a repository will not be needed again.
    const newest = new Map<string, Entry>();
    for (const one of idle) if (!newest.has(one.wanted.repository)) newest.set(one.wanted.repository, one);
    const wantedAgain = new Set([...newest.values()].slice(0, mostIdle));
    await Promise.all(idle.filter((one) => !wantedAgain.has(one)).map(remove));
  }

  async function lookOver(entry: Entry): Promise<void> {
    const made = await entry.making;
    const now = await fingerprint(made.root).catch(() => undefined);
    if (now === made.print || !isShared(entry)) return;
    forget(entry);
    if (now === undefined) return; // it was removed by a cleanup
    unshared.set(entry.wanted.repository, true);
    log.warn(
      { repo: entry.wanted.label },
      "the project was modified while it was rendered; its checkout is no longer shared",
    );
  }

  async function release(entry: Entry): Promise<void> {
    // Release does not wait for the comparison: a caller that takes the checkout meanwhile is like one that took it
    // before.
    if (isShared(entry)) entry.looking ??= lookOver(entry).finally(() => (entry.looking = undefined));
    await leave(entry);
  }

  return {
    async take(wanted, signal) {
      signal.throwIfAborted();
      let entry = entries.get(keyOf(wanted));
      if (entry?.users === 0 && !(await isThere(entry))) forget(entry);
      entry = entries.get(keyOf(wanted)) ?? open(wanted);
      entry.users++;
      try {
        const { root } = await beforeAbort(entry.making, signal);
        const taken = entry;
        let released: Promise<void> | undefined;
        return { root, release: () => (released ??= release(taken)) };
      } catch (error) {
        entry.users--;
        if (entry.users === 0) {
          entry.controller.abort(new Error("the checkout is no longer needed"));
          await remove(entry);
        }
        throw error;
      }
    },
    async sweep() {
      const oldest = performance.now() - idleMs;
      const old = [...entries.values()].filter(({ users, idleSince }) => users === 0 && idleSince < oldest);
      await Promise.all(old.map(remove));
      return old.length;
    },
  };
}

async function isThere({ making }: Entry): Promise<boolean> {
  return making
    .then(({ root }) => stat(root))
    .then(
      () => true,
      () => false,
    );
}
