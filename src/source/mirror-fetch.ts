/** Fetches into mirrors. The callers hold the mirror's lock exclusively. */
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SourceError } from "../errors.ts";
import { removeDirectory } from "../kit/work-directories.ts";
import type { Logger } from "../log.ts";
import type { Heads, Leaving } from "../model.ts";
import { isProtocolError } from "./explain.ts";
import { type Git, GitFailure } from "./git.ts";
import { exists, forget, markerOf, type Mirror, type MirrorViews, refsOf, type View } from "./mirror-views.ts";
import type { RemoteGit } from "./remote-git.ts";
import type { Remote } from "./remote.ts";
import { remoteHead } from "./tips.ts";

export interface Waiting extends Leaving {
  readonly signal: AbortSignal;
}

export interface MirrorFetchDeps {
  readonly git: Git;
  readonly remoteGit: RemoteGit;
  readonly views: MirrorViews;
  readonly log: Logger;
  readonly fetched: (seconds: number, ok: boolean) => void;
}

export interface MirrorFetch {
  /** Throws CommitMissing if the remote does not show the commit to this login. */
  bring(view: View, remote: Remote, commit: string, waiting: Waiting): Promise<void>;
  /** Fetches everything; returns the remote's current refs, unless the mirror cannot tell. */
  everything(view: View, remote: Remote, waiting: Waiting): Promise<Heads | undefined>;
  /** Removes what belongs to this login alone. What only this login was shown is left to git's housekeeping. */
  dismiss(mirror: Mirror, login: string): Promise<void>;
}

/** Fetches these refspecs. */
type Fetch = (...refs: readonly string[]) => Promise<string>;

const withoutHaves = ["-c", "fetch.negotiationAlgorithm=noop"];

export function createMirrorFetch({ git, remoteGit, views, log, fetched }: MirrorFetchDeps): MirrorFetch {
  const { inMirror, has, shows, mayShow, rememberTips } = views;

  /** The files of a failed fetch are removed. */
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
    bring,
    dismiss,
    // Detects a silent host as quickly as `ls-remote` would; if the host is only slow, the next attempt uses
    // `ls-remote` first.
    everything: (view, remote, waiting) =>
      fetching(view, { remote, quick: true, ...waiting }, async (fetch) => {
        await fetch(...everythingFor(view.login), `+HEAD:${refsOf(view.login)}/${remoteHead}`);
        return rememberTips(view);
      }),
  };
}

function everythingFor(login: string): readonly string[] {
  return ["heads", "tags"].map((kind) => `+refs/${kind}/*:${refsOf(login)}/refs/${kind}/*`);
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

export function isRefMissing(error: unknown): boolean {
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
