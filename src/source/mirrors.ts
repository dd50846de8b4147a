/**
 * One bare mirror per repository and login, so that commits needed by many deployments are fetched once. Fetches hold
 * the mirror's lock exclusively, clones share it.
 */
import { hash } from "node:crypto";
import { mkdir, readdir, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { SourceError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Heads } from "../model.ts";
import type { Leaving } from "../ports.ts";
import { isDamaged, isProtocolError } from "./explain.ts";
import { GitFailure } from "./git.ts";
import type { Git } from "./git.ts";
import { type BoundedMap, createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit } from "../kit/limit.ts";
import type { Limit } from "../kit/limit.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";
import { parseTips, remoteHead, tipsFormat } from "./tips.ts";
import { removeDirectory } from "../kit/work-directories.ts";

export interface Mirrors {
  /**
   * Runs `use` with a mirror that contains the commit, and keeps the mirror unchanged meanwhile. `state` is different
   * after every change of the mirror.
   */
  withCommit<T>(
    remote: Remote,
    id: string,
    commit: string,
    { signal, leaves }: Waiting,
    use: (mirror: string, state: number) => Promise<T>,
  ): Promise<T>;
  /**
   * Fetches everything and returns the remote's current refs. Returns `undefined` if the remote itself must be queried,
   * because there is no mirror yet or the mirror cannot tell.
   */
  refresh(remote: Remote, id: string, waiting: Waiting): Promise<Heads | undefined>;
  /** Removes the mirrors that were not used for the given time; returns how many. */
  sweep(idleMs: number): Promise<number>;
}

export interface Waiting extends Leaving {
  readonly signal: AbortSignal;
}

export interface MirrorsDeps {
  readonly directory: string;
  readonly git: Git;
  readonly remoteGit: RemoteGit;
  readonly slowness: Slowness;
  readonly log: Logger;
  readonly fetched: (seconds: number, ok: boolean) => void;
}

interface Mirror {
  readonly path: string;
  readonly lock: Limit;
  /** Commits known to be in the mirror; saves asking git for them again. */
  readonly present: BoundedMap<true>;
  /** Whether this process has fetched into the mirror, and so knows all of its tips. */
  fetched: boolean;
  /** Hash of all refs after the last fetch. */
  tips: string | undefined;
  /**
   * Incremented whenever the mirror is discarded, so that callers that find it damaged at the same time discard it only
   * once.
   */
  generation: number;
  /** Incremented whenever its refs and objects may have changed. */
  state: number;
}

/** Fetches these refspecs. */
type Fetch = (...refs: readonly string[]) => Promise<string>;

const exclusive = 1_000_000;
const presentKept = 1_000;
const withoutHaves = ["-c", "fetch.negotiationAlgorithm=noop"];
const everything = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];

export function createMirrors({ directory, git, remoteGit, slowness, log, fetched }: MirrorsDeps): Mirrors {
  const mirrors = new Map<string, Mirror>();

  function open(id: string): Mirror {
    const known = mirrors.get(id);
    if (known !== undefined) return known;
    const mirror = {
      path: join(directory, id),
      lock: createLimit(exclusive),
      present: createBoundedMap<true>({ entries: presentKept }),
      fetched: false,
      tips: undefined,
      generation: 0,
      state: 0,
    };
    mirrors.set(id, mirror);
    return mirror;
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
    if (mirror.present.get(commit)) return true;
    if (!(await exists(mirror.path))) return false;
    const type = await git(["cat-file", "-t", commit], { at: { gitDir: mirror.path }, protocols: [] }).catch(() => "");
    if (type.trim() === "commit") mirror.present.set(commit, true);
    return mirror.present.get(commit) === true;
  }

  /**
   * Whether the mirror contains the commit. After a fetch, git is not asked, because an unknown commit was most likely
   * just pushed and is missing; an unnecessary fetch is harmless.
   */
  async function mayHave(mirror: Mirror, commit: string): Promise<boolean> {
    return mirror.fetched ? mirror.present.get(commit) === true : has(mirror, commit);
  }

  /** Call after a fetch: the commits that branches and tags point to are now in the mirror. */
  async function rememberTips(mirror: Mirror): Promise<Heads | undefined> {
    const printed = await git(["for-each-ref", tipsFormat], { at: { gitDir: mirror.path }, protocols: [] });
    const { commits, heads } = parseTips(printed);
    const tips = hash("sha256", printed);
    if (mirror.tips !== tips) mirror.state++;
    mirror.tips = tips;
    for (const commit of commits.slice(-presentKept / 2)) mirror.present.set(commit, true);
    mirror.fetched = true;
    return heads;
  }

  /** The caller holds the mirror's lock exclusively. The files of a failed fetch are removed. */
  async function fetching<T>(
    mirror: Mirror,
    { remote, quick = false, signal, leaves }: Waiting & { remote: Remote; quick?: boolean },
    use: (fetch: Fetch) => Promise<T>,
  ): Promise<T> {
    const isNew = !(await exists(mirror.path));
    const from = performance.now();
    let ok = false;
    try {
      if (isNew) await create(mirror.path, git);
      const options = ["--prune", "--no-tags", "--no-write-fetch-head", "--progress"];
      const value = await use(async (...refs) => {
        const call = { gitDir: mirror.path, quick, signal, leaves };
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
      ok = true;
      return value;
    } finally {
      const seconds = (performance.now() - from) / 1_000;
      fetched(seconds, ok);
      log.debug({ repo: remote.label, seconds, ok, new: isNew }, "fetched");
      if (!ok) {
        mirror.state++;
        mirror.tips = undefined; // some refs may have changed already
        await (isNew ? removeDirectory(mirror.path) : clearAway(mirror.path));
      }
    }
  }

  /** The caller holds the mirror's lock exclusively. */
  async function bring(mirror: Mirror, remote: Remote, commit: string, waiting: Waiting): Promise<void> {
    if (await mayHave(mirror, commit)) return; // another caller just fetched it
    mirror.state++;
    await fetching(mirror, { remote, ...waiting }, async (fetch) => {
      await fetch(...everything);
      await rememberTips(mirror);
      // No branch contains the commit any more: the deployment pins it, or a push has just replaced it. Many hosts
      // still serve it.
      if (!(await has(mirror, commit))) await fetch(`+${commit}:refs/pinned/${commit}`).catch(ignoreRefusal);
    });
    if (!(await has(mirror, commit))) throw new CommitMissing(commit);
  }

  async function discard(mirror: Mirror, generation: number): Promise<void> {
    if (mirror.generation !== generation) return;
    mirror.generation++;
    mirror.state++;
    mirror.present.clear();
    mirror.fetched = false;
    mirror.tips = undefined;
    await removeDirectory(mirror.path);
  }

  return {
    async withCommit(remote, id, commit, waiting, use) {
      const mirror = open(id);
      const { signal } = waiting;
      for (let attempt = 1; ; attempt++) {
        const { generation } = mirror;
        try {
          if (!(await locked(mirror, remote, waiting, () => mayHave(mirror, commit)))) {
            await locked(mirror, remote, waiting, () => bring(mirror, remote, commit, waiting), exclusive);
          }
          return await locked(mirror, remote, waiting, async () => {
            const now = new Date();
            await utimes(mirror.path, now, now).catch(() => undefined); // marks it as in use, see sweep
            return use(mirror.path, mirror.state);
          });
        } catch (error) {
          if (attempt > 1 || signal.aborted || !isDamaged(error)) throw error;
          log.warn(
            { repo: remote.label, git: (error as GitFailure).stderr.slice(-500) },
            "mirror damaged; cloning it again",
          );
          await mirror.lock.run(() => discard(mirror, generation), { signal, weight: exclusive });
        }
      }
    },

    async refresh(remote, id, waiting) {
      const mirror = open(id);
      const { signal } = waiting;
      if (!mirror.fetched) return undefined;
      // Detects a silent host as quickly as `ls-remote` would; if the host is only slow, the next attempt uses
      // `ls-remote` first.
      const refresh = (): Promise<Heads | undefined> =>
        fetching(mirror, { remote, quick: true, ...waiting }, async (fetch) => {
          await fetch(...everything, `+HEAD:${remoteHead}`);
          return rememberTips(mirror);
        });
      try {
        return await locked(mirror, remote, waiting, refresh, exclusive);
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
        if (!(await isIdle(join(directory, id), idleMs))) continue;
        const mirror = open(id);
        await mirror.lock.run(
          async () => {
            if (!(await isIdle(mirror.path, idleMs))) return; // it was used meanwhile
            await discard(mirror, mirror.generation);
            removed++;
          },
          { weight: exclusive },
        );
      }
      return removed;
    },
  };
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
