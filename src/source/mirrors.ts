/**
 * One bare mirror per repository, so that commits needed by many deployments are fetched once, also if their logins
 * differ or are replaced every hour. Each login has a namespace of refs in it, which only its own fetches write: a login
 * gets exactly the commits that the remote has shown to it. Fetches hold the mirror's lock exclusively, clones share it.
 */
import { hash } from "node:crypto";
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Heads, Leaving } from "../model.ts";
import { isDamaged, isProtocolError } from "./explain.ts";
import { GitFailure } from "./git.ts";
import type { Git } from "./git.ts";
import { type BoundedMap, createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit } from "../kit/limit.ts";
import type { Limit } from "../kit/limit.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Reader, Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";
import { parseTips, remoteHead, tipsFormat } from "./tips.ts";
import { removeDirectory } from "../kit/work-directories.ts";

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

export interface Waiting extends Leaving {
  readonly signal: AbortSignal;
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

interface Mirror {
  readonly path: string;
  readonly lock: Limit;
  readonly views: Map<string, View>;
  /**
   * Incremented whenever the mirror is discarded, so that callers that find it damaged at the same time discard it only
   * once.
   */
  generation: number;
}

/** What the remote has shown to one login. */
interface View {
  readonly mirror: Mirror;
  readonly id: string;
  /** The name of its namespace, and of its marker. */
  readonly login: string;
  /** Commits known to be among them; saves asking git again. */
  readonly shown: BoundedMap<true>;
  /** Whether this process has fetched with this login, and so knows all of its tips. */
  fetched: boolean;
  /** Hash of all refs after the last fetch. */
  tips: string | undefined;
  state: number;
}

/** Fetches these refspecs. */
type Fetch = (...refs: readonly string[]) => Promise<string>;

const exclusive = 1_000_000;
const shownKept = 1_000;
const withoutHaves = ["-c", "fetch.negotiationAlgorithm=noop"];

export function createMirrors(deps: MirrorsDeps): Mirrors {
  const { directory, git, remoteGit, readerOf, slowness, log, fetched } = deps;
  const mirrors = new Map<string, Mirror>();

  function open(id: string): Mirror {
    const mirror = mirrors.get(id) ?? {
      path: join(directory, id),
      lock: createLimit(exclusive),
      views: new Map<string, View>(),
      generation: 0,
    };
    mirrors.set(id, mirror);
    return mirror;
  }

  async function viewFor(remote: Remote): Promise<View> {
    const { id, mirror: name, login } = await readerOf(remote);
    const mirror = open(name);
    const view = mirror.views.get(login) ?? {
      mirror,
      id,
      login,
      shown: createBoundedMap<true>({ entries: shownKept }),
      fetched: false,
      tips: undefined,
      state: 0,
    };
    mirror.views.set(login, view);
    return view;
  }

  async function inMirror({ path }: Mirror, ...args: readonly string[]): Promise<string> {
    return git(args, { at: { gitDir: path }, protocols: [] });
  }

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

  async function has(mirror: Mirror, commit: string): Promise<boolean> {
    if (!(await exists(mirror.path))) return false;
    return (await inMirror(mirror, "cat-file", "-t", commit).catch(() => "")).trim() === "commit";
  }

  /** Whether the mirror has the commit, and a ref that the remote has shown to this login leads to it. */
  async function shows(view: View, commit: string): Promise<boolean> {
    const { mirror, shown } = view;
    if (shown.get(commit)) return true;
    if (!(await has(mirror, commit))) return false;
    const beyond = await inMirror(mirror, "rev-list", "--max-count=1", commit, "--not", `--glob=${refsOf(view.login)}`);
    if (beyond === "") shown.set(commit, true);
    return beyond === "";
  }

  /**
   * Whether the view has the commit. After a fetch, git is not asked, because an unknown commit was most likely just
   * pushed and is missing; an unnecessary fetch is harmless.
   */
  async function mayShow(view: View, commit: string): Promise<boolean> {
    return view.fetched ? view.shown.get(commit) === true : shows(view, commit);
  }

  /** Call after a fetch: the commits that branches and tags point to are now in the mirror. */
  async function rememberTips(view: View): Promise<Heads | undefined> {
    const printed = await inMirror(view.mirror, "for-each-ref", tipsFormat, refsOf(view.login));
    const { commits, heads } = parseTips(printed);
    const tips = hash("sha256", printed);
    if (view.tips !== tips) view.state++;
    view.tips = tips;
    for (const commit of commits.slice(-shownKept / 2)) view.shown.set(commit, true);
    view.fetched = true;
    return heads;
  }

  /** The caller holds the mirror's lock exclusively. The files of a failed fetch are removed. */
  async function fetching<T>(
    view: View,
    { remote, quick = false, signal, leaves }: Waiting & { remote: Remote; quick?: boolean },
    use: (fetch: Fetch) => Promise<T>,
  ): Promise<T> {
    const { path } = view.mirror;
    const isNew = !(await exists(path));
    const isFirst = !(await exists(markerOf(view)));
    const from = performance.now();
    let ok = false;
    try {
      if (isNew) await create(path, git);
      if (isFirst) await admit(view);
      const options = ["--prune", "--no-tags", "--no-write-fetch-head", "--progress"];
      const value = await use(async (...refs) => {
        const call = { gitDir: path, quick, signal, leaves };
        try {
          return await remoteGit(remote, (address) => ["fetch", ...options, "--", address, ...refs], call);
        } catch (error) {
          if (isNew || !isProtocolError(error)) throw error;
          const { stderr } = error as GitFailure;
          log.warn({ repo: remote.label, git: stderr.slice(-500) }, "protocol error; fetching again from scratch");
          // Some servers fail whenever they have to negotiate common commits.
          const all = (address: string) => [...withoutHaves, "fetch", ...options, "--", address, ...refs];
          return remoteGit(remote, all, { ...call, quick: false });
        }
      });
      // Each login has as many refs as the remote.
      if (isFirst) await inMirror(view.mirror, "pack-refs", "--all");
      ok = true;
      return value;
    } finally {
      const seconds = (performance.now() - from) / 1_000;
      fetched(seconds, ok);
      log.debug({ repo: remote.label, seconds, ok, new: isNew }, "fetched");
      if (!ok) {
        view.state++;
        view.tips = undefined; // some refs may have changed already
        if (isNew) {
          forget(view);
          await removeDirectory(path);
        } else {
          await clearAway(path);
          // Otherwise, a wrong login that is tried again and again would keep an unused mirror.
          if (isFirst) await dismiss(view.mirror, view.login).catch(() => undefined);
        }
      }
    }
  }

  /** Gives a new login its namespace, with the HEAD that git gives a new repository. */
  async function admit(view: View): Promise<void> {
    await inMirror(view.mirror, "symbolic-ref", `${refsOf(view.login)}/HEAD`, `${refsOf(view.login)}/refs/heads/main`);
    await mkdir(join(view.mirror.path, "logins"), { recursive: true });
    await writeFile(markerOf(view), "");
  }

  /** The caller holds the mirror's lock exclusively. */
  async function bring(view: View, remote: Remote, commit: string, waiting: Waiting): Promise<void> {
    if (await mayShow(view, commit)) return; // another caller just fetched it
    view.state++;
    await fetching(view, { remote, ...waiting }, async (fetch) => {
      await fetch(...everythingFor(view.login));
      await rememberTips(view);
      if (await shows(view, commit)) return;
      // No branch contains the commit any more: the deployment pins it, or a push has just replaced it. Many hosts
      // still serve it.
      const pinned = `${refsOf(view.login)}/refs/pinned/${commit}`;
      try {
        if (await has(view.mirror, commit)) {
          await proveServed(remote, commit, view.mirror, waiting);
          await inMirror(view.mirror, "update-ref", pinned, commit);
        } else {
          await fetch(`+${commit}:${pinned}`);
        }
      } catch (error) {
        ignoreRefusal(error);
      }
    });
    if (!(await shows(view, commit))) throw new CommitMissing(commit);
  }

  /**
   * Fetches only the commit itself, into an empty repository: in the mirror, git would not ask the remote for a commit
   * that another login has fetched.
   */
  async function proveServed(remote: Remote, commit: string, { path }: Mirror, waiting: Waiting): Promise<void> {
    const empty = `${path}.empty`;
    const args = ["fetch", "--depth=1", "--filter=tree:0", "--no-tags", "--no-write-fetch-head", "--progress"];
    try {
      await create(empty, git);
      await remoteGit(remote, (address) => [...args, "--", address, commit], { gitDir: empty, ...waiting });
    } finally {
      await removeDirectory(empty);
    }
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

  /** The caller holds the mirror's lock exclusively. What only this login was shown is left to git's housekeeping. */
  async function dismiss(mirror: Mirror, login: string): Promise<void> {
    const { path, views } = mirror;
    // Fetching nothing at all prunes everything.
    const args = ["fetch", "--prune", "--no-tags", "--no-write-fetch-head", "--progress", "--", path];
    await git([...args, `+refs/none/*:${refsOf(login)}/*`], { at: { gitDir: path }, protocols: ["file"] });
    await rm(markerOf({ mirror, login }), { force: true });
    await inMirror(mirror, "symbolic-ref", "--delete", `${refsOf(login)}/HEAD`);
    const view = views.get(login);
    if (view) forget(view);
    views.delete(login);
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
      // Detects a silent host as quickly as `ls-remote` would; if the host is only slow, the next attempt uses
      // `ls-remote` first.
      const refresh = (): Promise<Heads | undefined> =>
        fetching(view, { remote, quick: true, ...waiting }, async (fetch) => {
          await fetch(...everythingFor(view.login), `+HEAD:${refsOf(view.login)}/${remoteHead}`);
          return rememberTips(view);
        });
      try {
        return await locked(view.mirror, remote, waiting, refresh, exclusive);
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

/** The directory that git keeps the refs of a namespace in. */
function refsOf(login: string): string {
  return `refs/namespaces/${login}`;
}

function everythingFor(login: string): readonly string[] {
  return ["heads", "tags"].map((kind) => `+refs/${kind}/*:${refsOf(login)}/refs/${kind}/*`);
}

/** The file that exists while the mirror has refs of the login; its time says when they were last used. */
function markerOf({ mirror, login }: Pick<View, "mirror" | "login">): string {
  return join(mirror.path, "logins", login);
}

/** Forgets what is known about the mirror's content. */
function forget(view: View): void {
  view.state++;
  view.shown.clear();
  view.fetched = false;
  view.tips = undefined;
}

/** The remote does not have the commit, or does not serve it. */
export class CommitMissing extends SourceError {
  constructor(commit: string) {
    super("ref-not-found", `there is no commit ${commit}`);
  }
}

async function create(path: string, git: Git): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await git(["init", "--bare", "--template=", "--", path], { protocols: [] });
}

function ignoreRefusal(error: unknown): void {
  const refused = hasRefused(error, /not our ref|unadvertised object|remote error/i);
  if (!refused && !isRefMissing(error)) throw error;
}

function isRefMissing(error: unknown): boolean {
  return hasRefused(error, /couldn't find remote ref/i);
}

function hasRefused(error: unknown, words: RegExp): boolean {
  return error instanceof GitFailure && !(error.cause instanceof Error) && words.test(error.stderr);
}

/** Removes the unfinished files of an interrupted fetch. */
async function clearAway(path: string): Promise<void> {
  const packs = join(path, "objects", "pack");
  for (const name of await readdir(packs).catch(() => [])) {
    if (name.startsWith("tmp_")) await rm(join(packs, name), { force: true });
  }
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

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
