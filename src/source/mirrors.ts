/**
 * One bare mirror per repository, so that commits needed by many deployments are fetched once, also if their logins
 * differ or are replaced every hour. Each login has a namespace of refs in it, which only its own fetches write: a login
 * gets exactly the commits that the remote has shown to it. Fetches hold the mirror's lock exclusively, clones share it.
 */
import { readdir, rename, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { removeDirectory } from "../kit/work-directories.ts";
import type { Logger } from "../log.ts";
import type { Heads } from "../model.ts";
import { isDamaged } from "./explain.ts";
import type { Git, GitFailure } from "./git.ts";
import { createMirrorFetch, isRefMissing, type Waiting } from "./mirror-fetch.ts";
import { createMirrorViews, exclusive, exists, forget, markerOf, type Mirror } from "./mirror-views.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Reader, Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";

export interface Mirrors {
  /**
   * Runs `use` with a mirror that contains the commit, and keeps the mirror unchanged meanwhile. Throws CommitMissing if
   * the remote does not show the commit to this login, even if the mirror has it.
   */
  withCommit<T>(
    remote: Remote,
    commit: string,
    { signal, leaves }: Waiting,
    use: (view: MirrorView) => Promise<T>,
  ): Promise<T>;
  /**
   * Like `withCommit`, but never asks the remote: returns `undefined` if the mirror is missing, or lacks the commit for
   * this login. Does not count as a use of the mirror.
   */
  ifShown<T>(
    remote: Remote,
    commit: string,
    signal: AbortSignal,
    use: (mirror: Pick<MirrorView, "path">) => Promise<T>,
  ): Promise<T | undefined>;
  /**
   * Fetches everything and returns the remote's current refs. Returns `undefined` if the remote itself must be queried,
   * because there is no mirror yet or the mirror cannot tell.
   */
  refresh(remote: Remote, waiting: Waiting): Promise<Heads | undefined>;
  /**
   * Removes the mirrors that were not used for the given time, and what the others keep about unused logins; returns
   * how many mirrors.
   */
  sweep(idleMs: number): Promise<number>;
}

/** A mirror, as one login may read it. */
export interface MirrorView {
  readonly path: string;
  /** Equal for the same repository and login. */
  readonly id: string;
  /** The namespace (GIT_NAMESPACE) of the refs that the remote has shown to this login. */
  readonly namespace: string;
  /** Different after every change of these refs. */
  readonly state: number;
  /** Whether the remote has shown this commit to this login. The remote is not asked. */
  shows(commit: string): Promise<boolean>;
}

export interface MirrorsDeps {
  readonly directory: string;
  readonly git: Git;
  readonly remoteGit: RemoteGit;
  readonly readerOf: (remote: Remote) => Promise<Reader>;
  readonly slowness: Slowness;
  readonly log: Logger;
  readonly fetched: (seconds: number, ok: boolean) => void;
}

export function createMirrors(deps: MirrorsDeps): Mirrors {
  const { directory, git, remoteGit, readerOf, slowness, log, fetched } = deps;
  const views = createMirrorViews({ directory, git, readerOf });
  const { open, viewFor, shows, mayShow } = views;
  const { bring, everything, dismiss } = createMirrorFetch({ git, remoteGit, views, log, fetched });

  async function locked<T>(
    { lock }: Mirror,
    remote: Remote,
    { signal, leaves = false }: Waiting,
    work: () => Promise<T>,
    weight = 1,
  ): Promise<T> {
    if (!leaves) return lock.run(work, { signal, weight });
    return slowness.wait(remote, (leave) => lock.run(work, { signal: AbortSignal.any([signal, leave]), weight }));
  }

  /**
   * Replaces a damaged mirror. It is kept until the fetch has succeeded: the remote may send errors that look like
   * damage, and one login must not take the mirror from the others.
   */
  async function replace(mirror: Mirror, generation: number, bringAgain: () => Promise<void>): Promise<void> {
    if (mirror.generation !== generation) return;
    const { path } = mirror;
    const aside = `${path}.damaged`;
    await removeDirectory(aside);
    await rename(path, aside).catch(() => undefined);
    mirror.generation++;
    for (const view of mirror.views.values()) forget(view);
    try {
      await bringAgain();
    } finally {
      if (!(await exists(path))) await rename(aside, path).catch(() => undefined);
      await removeDirectory(aside);
    }
  }

  return {
    async withCommit(remote, commit, waiting, use) {
      const view = await viewFor(remote);
      const { mirror, id, login: namespace } = view;
      const { signal } = waiting;
      for (let attempt = 1; ; attempt++) {
        const { generation } = mirror;
        try {
          if (!(await locked(mirror, remote, waiting, () => mayShow(view, commit)))) {
            await locked(mirror, remote, waiting, () => bring(view, remote, commit, waiting), exclusive);
          }
          return await locked(mirror, remote, waiting, async () => {
            const now = new Date();
            await utimes(markerOf(view), now, now).catch(() => undefined); // marks it as in use, see sweep
            const { path } = mirror;
            return use({ path, id, namespace, state: view.state, shows: (other) => shows(view, other) });
          });
        } catch (error) {
          if (attempt > 1 || signal.aborted || !isDamaged(error)) throw error;
          log.warn(
            { repo: remote.label, git: (error as GitFailure).stderr.slice(-500) },
            "mirror damaged; cloning it again",
          );
          const bringAgain = () => bring(view, remote, commit, waiting);
          await locked(mirror, remote, waiting, () => replace(mirror, generation, bringAgain), exclusive);
        }
      }
    },

    async ifShown(remote, commit, signal, use) {
      const view = await viewFor(remote);
      return locked(view.mirror, remote, { signal }, async () =>
        (await shows(view, commit)) ? use({ path: view.mirror.path }) : undefined,
      );
    },

    async refresh(remote, waiting) {
      const view = await viewFor(remote);
      const { signal } = waiting;
      if (!view.fetched) return undefined;
      try {
        return await locked(view.mirror, remote, waiting, () => everything(view, remote, waiting), exclusive);
      } catch (error) {
        // A damaged mirror is cloned again when a commit is needed from it; a HEAD that points nowhere is not a
        // failure.
        if (!signal.aborted && (isDamaged(error) || isRefMissing(error))) return undefined;
        throw error;
      }
    },

    async sweep(idleMs) {
      let removed = 0;
      for (const id of await readdir(directory).catch(() => [])) {
        const mirror = open(id);
        if ((await findIdle(mirror, idleMs)) === undefined) continue;
        await mirror.lock.run(
          async () => {
            const idle = await findIdle(mirror, idleMs); // it may have been used meanwhile
            if (idle === "mirror") {
              for (const view of mirror.views.values()) forget(view);
              await removeDirectory(mirror.path);
              removed++;
            } else {
              for (const login of idle ?? []) {
                await dismiss(mirror, login).catch((err: unknown) => log.warn({ err, id }, "could not forget a login"));
              }
            }
          },
          { weight: exclusive },
        );
      }
      return removed;
    },
  };
}

/** What was not used for the given time: some logins, or the whole mirror. */
async function findIdle(mirror: Mirror, idleMs: number): Promise<"mirror" | readonly string[] | undefined> {
  const logins = await readdir(join(mirror.path, "logins")).catch(() => []);
  const areIdle = await Promise.all(logins.map((login) => isIdle(markerOf({ mirror, login }), idleMs)));
  const idle = logins.filter((_, i) => areIdle[i]);
  if (logins.length === 0 && (await isIdle(mirror.path, idleMs))) return "mirror"; // nobody ever fetched into it
  if (idle.length === 0) return undefined;
  return idle.length === logins.length ? "mirror" : idle;
}

async function isIdle(path: string, idleMs: number): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && Date.now() - found.mtimeMs >= idleMs;
}
