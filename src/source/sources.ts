/**
 * Git and OCI for the rest of the server: the current refs of a repository, and a directory with one of its commits.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SourceError } from "../errors.ts";
import { commitOf, describeRef, refName } from "../model/git-ref.ts";
import type { Logger } from "../log.ts";
import type {
  Checkout,
  Freshness,
  GitCheckoutSource,
  GitCredential,
  GitRef,
  Heads,
  KnownHeads,
  Merge,
  MergeSource,
  Repository,
} from "../model.ts";
import type { Sources } from "../ports.ts";
import { systemLookup } from "../kit/address.ts";
import type { Lookup } from "../kit/address.ts";
import { checkOut, checkPath, type Clone, cloneLocally, findProject } from "./clone.ts";
import { explain } from "./explain.ts";
import { createGit, type Git } from "./git.ts";
import { createFindHeads } from "./heads.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit } from "../kit/limit.ts";
import { epochNow } from "../kit/monotonic.ts";
import { parseLsRemote, parseRefs } from "./ls-remote.ts";
import { findChanges, mergeInto, readAuthorship } from "./merge.ts";
import { CommitMissing, createMirrors, type MirrorView, type Waiting } from "./mirrors.ts";
import { findNamedHosts } from "./named-hosts.ts";
import { createOciSources } from "./oci.ts";
import { createRemoteGit } from "./remote-git.ts";
import { keyedId, toReader, toRemote } from "./remote.ts";
import type { Reader, Remote } from "./remote.ts";
import { readServerGitLogins } from "./server-logins.ts";
import { createShare } from "../kit/share.ts";
import { createSlowness } from "./slowness.ts";
import { checkTreeSize, type TreeLimits } from "./tree-size.ts";
import { readLine } from "./read-line.ts";
import { createSharedCheckouts } from "./shared-checkouts.ts";
import { createMergeClones, type EncryptedFiles } from "./merge-clones.ts";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { writeOnce } from "../kit/write-once.ts";

export interface SourceLimits {
  /** Concurrent conversations per host. */
  readonly callsPerHost: number;
  /** Concurrent local clones. */
  readonly clones: number;
  /** Silence after which listing refs is aborted, and the host paused. */
  readonly answerMs: number;
  /** Silence after which any other conversation is aborted. */
  readonly silenceMs: number;
  /** Maximum duration of one conversation. */
  readonly callMs: number;
  /** Duration after which callers that can be retried stop waiting for a conversation. */
  readonly slowMs: number;
  /**
   * The longest time that an answer to `heads` is kept: long enough for all deployments of one push to be reconciled.
   */
  readonly headsMs: number;
  /** Delay before git is asked again after it returned an older commit: a replica of a git host may lag behind. */
  readonly goesBackMs: number;
  /** Age after which `sweepStale` removes an unused mirror. */
  readonly mirrorIdleMs: number;
  /** How long an unused checkout is kept for later callers. */
  readonly checkoutIdleMs: number;
  /** How many unused checkouts are kept, at most one per repository. */
  readonly idleCheckouts: number;
  /** Size limits of a proposed commit that is to be merged; unlimited if left out. */
  readonly proposed?: TreeLimits | undefined;
}

const defaultSourceLimits: SourceLimits = {
  callsPerHost: 4,
  clones: 2 * availableParallelism(),
  answerMs: 20_000,
  silenceMs: 60_000,
  callMs: 15 * 60_000,
  slowMs: 5_000,
  headsMs: 10 * 60_000,
  goesBackMs: 3_000,
  mirrorIdleMs: 24 * 60 * 60_000,
  checkoutIdleMs: 10 * 60_000,
  idleCheckouts: 32,
};

export interface SourcesDeps {
  /** Belongs to one process at a time. */
  readonly cacheDir: string;
  readonly log: Logger;
  /** Runs git; by default in child processes of this thread. */
  readonly git?: Git | undefined;
  /** Only the search path, proxies and certificate authorities are read from it. */
  readonly env: NodeJS.ProcessEnv;
  readonly limits?: Partial<SourceLimits> | undefined;
  /** The allowed protocols out of `http`, `https` and `ssh`. */
  readonly protocols?: readonly string[] | undefined;
  readonly lookup?: Lookup | undefined;
  /** Without it, merges are not available with placeholders for encrypted values. */
  readonly encrypted?: EncryptedFiles | undefined;
  readonly observe?: SourcesObserver | undefined;
}

export interface SourcesObserver {
  lsRemote(seconds: number, ok: boolean): void;
  fetch(seconds: number, ok: boolean): void;
  checkout(seconds: number): void;
}

export interface GitSources extends Sources {
  /** Removes unused mirrors, and what a crashed process left behind. */
  sweepStale(): Promise<void>;
}

/** The directory that git uses as HOME. */
export function gitHome(cacheDir: string): string {
  return join(cacheDir, "home");
}

export function createSources(deps: SourcesDeps): GitSources {
  const { cacheDir, log, env, observe, protocols = ["http", "https", "ssh"], lookup = systemLookup } = deps;
  const limits: SourceLimits = {
    ...defaultSourceLimits,
    ...deps.limits,
    // The limit may change while the server runs.
    get callMs() {
      return deps.limits?.callMs ?? defaultSourceLimits.callMs;
    },
  };
  const git = deps.git ?? createGit({ home: gitHome(cacheDir), env });
  const work = createWorkDirectories(join(cacheDir, "work"));
  const { slowMs, callsPerHost } = limits;
  const slowness = createSlowness({ slowMs, callsPerHost, now: () => performance.now() });
  const remoteGit = createRemoteGit({ git, work, env, lookup, limits, slowness });
  const fetched = (seconds: number, ok: boolean): void => observe?.fetch(seconds, ok);
  const mirrors = createMirrors({
    directory: join(cacheDir, "mirrors"),
    git,
    remoteGit,
    readerOf,
    slowness,
    log,
    fetched,
  });
  const clones = createLimit(limits.clones);
  const checkouts = createSharedCheckouts({ idleMs: limits.checkoutIdleMs, mostIdle: limits.idleCheckouts, log });
  const knownHeads = createBoundedMap<KnownHeads>({ entries: 1_000, maxAgeMs: limits.headsMs });
  const findHeads = createFindHeads({
    readerOf,
    list: lsRemote,
    fetch: (remote, waiting) => mirrors.refresh(remote, waiting),
    slowness,
    maxAgeMs: limits.headsMs,
    onAsk(reader) {
      const askedAt = epochNow();
      return (heads) => {
        if (askedAt >= (knownHeads.get(reader)?.askedAt ?? 0)) knownHeads.set(reader, { heads, askedAt });
      };
    },
  });
  /** An answer that was requested to repeat an earlier one → the earlier one. */
  const repeated = new WeakMap<Heads, Heads>();
  const ancestries = createShare<boolean>({ maxAgeMs: limits.headsMs, entries: 1_000 });
  /** Commits never change, and neither does what they lead back to. */
  const lineages = createShare<boolean>({ entries: 1_000 });
  const oci = createOciSources({
    cacheDir,
    log,
    env,
    lookup,
    work,
    clones,
    limits,
    idOf: async (parts) => keyedId(parts, await ownKey()),
  });

  let key: Promise<Buffer> | undefined;
  async function ownKey(): Promise<Buffer> {
    key ??= readKey(cacheDir);
    key.catch(() => (key = undefined));
    return key;
  }

  async function readerOf(remote: Remote): Promise<Reader> {
    return toReader(remote, await ownKey());
  }

  /** The server's own logins come last, and the hosts that it knows are known to every login. */
  async function toRemoteOf({ url, credentials }: Repository): Promise<Remote> {
    const { logins, knownHosts } = await readServerGitLogins(env);
    const known = knownHosts === undefined ? credentials : credentials.map((one) => withHosts(one, knownHosts));
    return toRemote({ url, credentials: [...known, ...logins] }, protocols);
  }

  async function lsRemote(remote: Remote, waiting: Partial<Waiting>): Promise<Heads> {
    return parseLsRemote(await askRefs(remote, [], waiting));
  }

  async function askRefs(
    remote: Remote,
    names: readonly string[],
    { signal, leaves }: Partial<Waiting>,
  ): Promise<string> {
    const from = performance.now();
    let ok = false;
    try {
      const output = await remoteGit(remote, (address) => ["ls-remote", "--symref", "--", address, ...names], {
        signal,
        leaves,
        quick: true,
      });
      ok = true;
      return output;
    } finally {
      observe?.lsRemote((performance.now() - from) / 1_000, ok);
    }
  }

  function resolvePinned(commit: string): string {
    if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i.test(commit)) return commit.toLowerCase();
    throw new SourceError("ref-not-found", `${JSON.stringify(commit)} is not the full hash of a commit`);
  }

  function commitIn(heads: Heads, ref: GitRef): string {
    if (heads.commits.size === 0) throw new SourceError("empty", "the repository has no commits");
    const commit = commitOf(ref, heads);
    if (commit !== undefined) return commit;
    const inKluctlsWords = `ref ${refName(ref, heads) ?? "HEAD"} not found`;
    throw new SourceError("ref-not-found", `there is no ${JSON.stringify(describeRef(ref)).slice(1, -1)}`, {
      inKluctlsWords,
    });
  }

  /** Resolves the ref. A commit that is an ancestor of the one seen last is accepted only if git returns it twice. */
  async function resolveForward(
    remote: Remote,
    { ref, seen }: GitCheckoutSource,
    freshness: Freshness | undefined,
    waiting: Waiting,
  ): Promise<string> {
    const { signal } = waiting;
    if (ref.commit !== undefined) return resolvePinned(ref.commit);
    const answer = await findHeads(remote, freshness, waiting);
    const first = commitIn(answer, ref);
    const isComparable = seen !== undefined && /^[0-9a-f]{40,64}$/.test(seen);
    if (!isComparable || seen === first || !(await mayGoBack(remote, first, seen, waiting))) return first;
    const earlier = repeated.get(answer);
    if (earlier !== undefined && commitOf(ref, earlier) === first) return first;
    const from = performance.now();
    await sleep(limits.goesBackMs, undefined, { signal });
    // Other deployments with the same first answer wait as well, and share this one.
    const again = await findHeads(remote, { maxAgeMs: performance.now() - from - limits.goesBackMs / 2 }, { signal });
    repeated.set(again, answer);
    const second = commitIn(again, ref);
    log.info({ repo: remote.label, seen, first, second }, "git returned an older commit; checked again");
    return second;
  }

  /**
   * Whether `to` is an ancestor of `from`. After a force push, `from` may be missing from the mirror, or was not shown
   * to this login; then this returns true.
   */
  async function mayGoBack(remote: Remote, to: string, from: string, waiting: Waiting): Promise<boolean> {
    const compare = async (view: MirrorView, signal: AbortSignal) =>
      !(await view.shows(from)) || leadsTo(view, to, from, signal);
    return mirrors.withCommit(remote, to, waiting, (view) =>
      ancestries.get(`${view.id} ${to} ${from}`, (shared) => compare(view, shared), { signal: waiting.signal }),
    );
  }

  /** What leads to a commit was shown together with it: an ancestor that was not shown is none. */
  async function leadsTo({ path, shows }: MirrorView, to: string, from: string, signal: AbortSignal): Promise<boolean> {
    if (!(await shows(to))) return false;
    const how = { at: { gitDir: path }, protocols: [], answers: [1], signal };
    return (await git(["merge-base", to, from], how)).trim() === to;
  }

  async function cloneInto(
    root: string,
    from: Pick<Clone, "path" | "namespace">,
    remote: Remote,
    signal: AbortSignal,
  ): Promise<void> {
    await clones.run(() => cloneLocally(git, { ...from, root, origin: remote.address }, signal), { signal });
  }

  async function makeCheckout(remote: Remote, view: MirrorView, commit: string, signal: AbortSignal): Promise<string> {
    const root = await work.create();
    try {
      await cloneInto(root, view, remote, signal);
      await clones.run(() => checkOut(git, root, commit, signal), { signal });
      return root;
    } catch (error) {
      await removeDirectory(root);
      throw error;
    }
  }

  async function open(remote: Remote, commit: string, path: string, waiting: Waiting): Promise<Checkout> {
    const { signal } = waiting;
    const { root, release } = await mirrors.withCommit(remote, commit, waiting, (view) =>
      checkouts.take(
        {
          repository: view.id,
          state: `${view.state} ${commit}`,
          label: remote.label,
          make: (making) => makeCheckout(remote, view, commit, making),
        },
        signal,
      ),
    );
    try {
      return { root, projectDir: await findProject(root, path), commit, release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  async function openMerge(remote: Remote, source: MergeSource, signal: AbortSignal): Promise<Merge> {
    const { head, base, isMerged } = source;
    const trusted = isMerged ? source.tip : base;
    // All commits must be in the mirror before it is cloned; a mirror keeps the commits it has.
    for (const commit of new Set([base, trusted ?? base]))
      await mirrors.withCommit(remote, commit, { signal }, () => Promise.resolve());
    const slot = await work.create();
    const root = join(slot, "clone");
    try {
      const { shows } = await mirrors.withCommit(remote, head, { signal }, async (view) => {
        const most = limits.proposed;
        // Runs in parallel with the clone, so that it takes no extra time; the clone has no working tree yet.
        const checked = await Promise.allSettled([
          most && checkTreeSize(git, { mirror: view.path, commit: head, most }, signal),
          cloneInto(root, view, remote, signal),
        ]);
        for (const one of checked) if (one.status === "rejected") throw one.reason;
        return view;
      });
      const merge = await clones.run(() => mergeInto(git, { root, head, base, isMerged }, signal), { signal });
      if ("changed" in merge) {
        const clone = async (copy: string, copying: AbortSignal) => cloneInto(copy, { path: root }, remote, copying);
        const encrypted = deps.encrypted ?? noEncrypted;
        let named: Promise<readonly string[]> | undefined;
        const made = createMergeClones({ git, work, encrypted, slot, root, base, shows, clone, remove: release });
        return {
          kind: "merged",
          head,
          base,
          changed: merge.changed,
          project: async (path, asking, of) =>
            explained(remote, asking, async () => {
              checkPath(path);
              const { root: copy, ...placed } = await made.get(asking, of);
              return { ...placed, projectDir: await findProject(copy, path) };
            }),
          stubbed: async (path, asking, of) =>
            explained(remote, asking, async () => {
              checkPath(path);
              const { root: copy, ...placed } = await made.stubbed(asking, of);
              return { ...placed, projectDir: await findProject(copy, path) };
            }),
          baseHosts: async (asking) =>
            explained(remote, asking, async () =>
              trusted === undefined ? [] : (named ??= findNamedHosts(git, { root, commit: trusted }, asking)),
            ),
          line: async (path, line, asking) => readLine((await made.get(asking)).root, path, line),
          async release() {
            await made.release();
            await release(slot);
          },
        };
      }
      await removeDirectory(slot);
      return { kind: "conflict", paths: merge.conflicts };
    } catch (error) {
      await removeDirectory(slot);
      throw error;
    }
  }

  /** Never fails: the work is done by then, and a remaining directory is swept at the next start. */
  async function release(root: string): Promise<void> {
    await removeDirectory(root).catch((err: unknown) => log.warn({ err, root }, "could not remove a checkout"));
  }

  /** Translates failures to SourceErrors; a caller that was cancelled gets its own reason back. */
  async function explained<T>(remote: Remote, signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      signal?.throwIfAborted();
      throw explain(error, remote);
    }
  }

  return {
    async heads(repository: Repository, freshness, signal, options) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () => findHeads(remote, freshness, { ...options, signal }));
    },

    async commitsAt(repository, names, signal) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, async () => parseRefs(await askRefs(remote, names, { signal }), names));
    },

    async checkout(source, freshness, signal, options) {
      if (source.kind === "oci") return oci.checkout(source, signal);
      const remote = await toRemoteOf(source);
      return explained(remote, signal, async () => {
        checkPath(source.path);
        const from = performance.now();
        const waiting = { ...options, signal };
        const forward = async (as: Freshness | undefined): Promise<Checkout> =>
          open(remote, await resolveForward(remote, source, as, waiting), source.path, waiting);
        const checkout = await forward(freshness).catch((error: unknown) => {
          // The branch was moved between listing refs and fetching.
          if (!(error instanceof CommitMissing) || source.ref.commit !== undefined) throw error;
          return forward(undefined);
        });
        observe?.checkout((performance.now() - from) / 1_000);
        return checkout;
      });
    },

    tag: (source, signal) => oci.tag(source, signal),

    async merge(source, signal) {
      const remote = await toRemoteOf(source);
      return explained(remote, signal, () => openMerge(remote, source, signal));
    },

    slowForMs: (repo) => slowness.slowForMs(repo),

    async changes(repository, from, to, signal) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, async () => {
        await mirrors.withCommit(remote, to, { signal }, () => Promise.resolve());
        return mirrors.withCommit(remote, from, { signal }, ({ path }) =>
          findChanges(git, { at: { gitDir: path }, from, to }, signal),
        );
      });
    },

    async contains(repository, commit, ancestor, signal = new AbortController().signal, options = {}) {
      if (commit === ancestor) return true;
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () =>
        mirrors.withCommit(remote, commit, { ...options, signal }, (view) =>
          lineages.get(`${view.id} ${ancestor} ${commit}`, (shared) => leadsTo(view, ancestor, commit, shared), {
            signal,
          }),
        ),
      );
    },

    async authorship(repository, commit, signal) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () =>
        mirrors.withCommit(remote, commit, { signal }, ({ path }) => readAuthorship(git, path, commit, signal)),
      );
    },

    async knownAuthorship(repository, commit, signal) {
      if (!/^[0-9a-f]{40,64}$/.test(commit)) return undefined; // a revision that git would resolve, or an option
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () =>
        mirrors.ifShown(remote, commit, signal, ({ path }) => readAuthorship(git, path, commit, signal)),
      );
    },

    async knownHeads(repository) {
      return knownHeads.get((await readerOf(await toRemoteOf(repository))).id);
    },

    async sweepStale() {
      const left = await work.sweep();
      const idle = await mirrors.sweep(limits.mirrorIdleMs);
      const artifacts = await oci.sweep(limits.mirrorIdleMs);
      const unused = await checkouts.sweep();
      if (left + idle + artifacts + unused > 0) {
        log.info({ workDirectories: left, mirrors: idle, artifacts, unused }, "stale checkouts removed");
      }
    },
  };
}

const noEncrypted: EncryptedFiles = {
  find: () => Promise.resolve(new Map()),
  stub: () => Promise.resolve(new Map()),
};

function withHosts(credential: GitCredential, knownHosts: string): GitCredential {
  return { ...credential, knownHosts: [credential.knownHosts, knownHosts].filter(Boolean).join("\n") };
}

async function readKey(cacheDir: string): Promise<Buffer> {
  await mkdir(cacheDir, { recursive: true, mode: 0o700 });
  const file = join(cacheDir, "key");
  await writeOnce(file, randomBytes(32));
  return readFile(file);
}
