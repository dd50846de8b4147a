/**
 * One bare mirror per repository and login: whatever many deployments want of it is fetched once. Fetching has the
 * mirror for itself, cloning shares it.
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
import { createLimit } from "../limit.ts";
import type { Limit } from "../limit.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Remote } from "./remote.ts";
import type { Slowness } from "./slowness.ts";
import { parseTips, remoteHead, tipsFormat } from "./tips.ts";
import { removeDirectory } from "../work-directories.ts";

export interface Mirrors {
  /** Runs `use` with a mirror that has the commit, and keeps the mirror as it is meanwhile; `state` names how it is. */
  withCommit<T>(
    remote: Remote,
    id: string,
    commit: string,
    { signal, leaves }: Waiting,
    use: (mirror: string, state: number) => Promise<T>,
  ): Promise<T>;
  /**
   * Fetches all, and says what the remote has now. `undefined` if the remote itself has to be asked: there is no mirror
   * yet, or it does not tell.
   */
  refresh(remote: Remote, id: string, waiting: Waiting): Promise<Heads | undefined>;
  /** Removes the mirrors that nobody used for the given time. */
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
  /** Commits known to be there; saves asking git for the same one again. */
  readonly present: Set<string>;
  /** This process has fetched into it, so it knows every tip that is there. */
  fetched: boolean;
  /** Stands for what all refs were, when it was last fetched into. */
  tips: string | undefined;
  /** Counts how often it was thrown away, so that many who find it damaged do so once. */
  generation: number;
  /** Counts how often its refs and objects may have become others. */
  state: number;
}

/** Fetches these refs, each with where it goes. */
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
      present: new Set<string>(),
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
    if (mirror.present.has(commit)) return true;
    if (!(await exists(mirror.path))) return false;
    const type = await git(["cat-file", "-t", commit], { at: { gitDir: mirror.path }, protocols: [] }).catch(() => "");
    if (type.trim() === "commit") remember(mirror, commit);
    return mirror.present.has(commit);
  }

  /** Without asking git where the answer is most likely no: a commit that was just pushed. A needless fetch does no harm. */
  async function mayHave(mirror: Mirror, commit: string): Promise<boolean> {
    return mirror.fetched ? mirror.present.has(commit) : has(mirror, commit);
  }

  /** After a fetch: what the branches and tags point to now is there. */
  async function rememberTips(mirror: Mirror): Promise<Heads | undefined> {
    const printed = await git(["for-each-ref", tipsFormat], { at: { gitDir: mirror.path }, protocols: [] });
    const { commits, heads } = parseTips(printed);
    const tips = hash("sha256", printed);
    if (mirror.tips !== tips) mirror.state++;
    mirror.tips = tips;
    for (const commit of commits.slice(-presentKept / 2)) remember(mirror, commit);
    mirror.fetched = true;
    return heads;
  }

  /** The caller has the mirror for itself. What is left of a fetch that fails is cleared away. */
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
          // Some servers fail as soon as they have to find out what both have.
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
        mirror.tips = undefined; // some of them may be others already
        await (isNew ? removeDirectory(mirror.path) : clearAway(mirror.path));
      }
    }
  }

  /** The caller has the mirror for itself. */
  async function bring(mirror: Mirror, remote: Remote, commit: string, waiting: Waiting): Promise<void> {
    if (await mayHave(mirror, commit)) return; // somebody else just did
    mirror.state++;
    await fetching(mirror, { remote, ...waiting }, async (fetch) => {
      await fetch(...everything);
      await rememberTips(mirror);
      // A commit that no branch has any more: it was pinned, or pushed over a moment ago. Many hosts still give it.
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
            await utimes(mirror.path, now, now).catch(() => undefined); // it is in use: see sweep
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
      // As quick as asking would be to find out that the host is silent; if it only is slow, the next try asks first.
      const refresh = (): Promise<Heads | undefined> =>
        fetching(mirror, { remote, quick: true, ...waiting }, async (fetch) => {
          await fetch(...everything, `+HEAD:${remoteHead}`);
          return rememberTips(mirror);
        });
      try {
        return await locked(mirror, remote, waiting, refresh, exclusive);
      } catch (error) {
        // Who wants a commit of it makes a damaged one anew; a HEAD that points nowhere is no failure.
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
            if (!(await isIdle(mirror.path, idleMs))) return; // somebody else was faster
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

/** The remote does not have the commit, or does not give it. */
export class CommitMissing extends SourceError {
  constructor(commit: string) {
    super("ref-not-found", `there is no commit ${commit}`);
  }
}

async function create(path: string, git: Git): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await git(["init", "--bare", "--template=", "--", path], { protocols: [] });
}

function remember({ present }: Mirror, commit: string): void {
  if (present.size >= presentKept) present.clear();
  present.add(commit);
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

/** Removes what a fetch that was ended left half-written. */
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
