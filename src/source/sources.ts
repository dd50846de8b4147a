/**
 * Git and OCI for the rest of the server: the current refs of a repository, and a directory with one of its commits.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../log.ts";
import type { Checkout, Freshness, GitCredential, KnownHeads, Repository } from "../model.ts";
import type { Sources } from "../ports.ts";
import { systemLookup } from "../kit/address.ts";
import type { Lookup } from "../kit/address.ts";
import { checkOut, checkPath, type Clone, cloneLocally, findProject } from "./clone.ts";
import { explained } from "./explain.ts";
import { createForward } from "./forward.ts";
import { createGit, type Git } from "./git.ts";
import { createFindHeads } from "./heads.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createLimit } from "../kit/limit.ts";
import { epochNow } from "../kit/monotonic.ts";
import { createListRefs } from "./list-refs.ts";
import { defaultSourceLimits, type SourceLimits } from "./limits.ts";
import { findChanges, readAuthorship } from "./merge.ts";
import { CommitMissing, type Waiting } from "./mirror-fetch.ts";
import { createMirrors, type MirrorView } from "./mirrors.ts";
import { createOciSources } from "./oci.ts";
import { createRemoteGit } from "./remote-git.ts";
import { keyedId, toReader, toRemote } from "./remote.ts";
import type { Reader, Remote } from "./remote.ts";
import { readServerGitLogins } from "./server-logins.ts";
import { createSlowness } from "./slowness.ts";
import { createSharedCheckouts } from "./shared-checkouts.ts";
import type { EncryptedFiles } from "./merge-clones.ts";
import { createOpenMerge } from "./open-merge.ts";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { writeOnce } from "../kit/write-once.ts";

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
  const listRefs = createListRefs(remoteGit, observe && ((seconds, ok) => observe.lsRemote(seconds, ok)));
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
    list: (remote, waiting) => listRefs.all(remote, waiting),
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
  const { resolveForward, contains } = createForward({ git, mirrors, findHeads, limits, log });
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

  const openMerge = createOpenMerge({
    ...{ git, work, mirrors, clones, cloneInto, log },
    encrypted: deps.encrypted,
    proposed: limits.proposed,
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

  return {
    async heads(repository: Repository, freshness, signal, options) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () => findHeads(remote, freshness, { ...options, signal }));
    },

    async commitsAt(repository, names, signal) {
      const remote = await toRemoteOf(repository);
      return explained(remote, signal, () => listRefs.named(remote, names, { signal }));
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
      return explained(remote, signal, () => contains(remote, commit, ancestor, { ...options, signal }));
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

function withHosts(credential: GitCredential, knownHosts: string): GitCredential {
  return { ...credential, knownHosts: [credential.knownHosts, knownHosts].filter(Boolean).join("\n") };
}

async function readKey(cacheDir: string): Promise<Buffer> {
  await mkdir(cacheDir, { recursive: true, mode: 0o700 });
  const file = join(cacheDir, "key");
  await writeOnce(file, randomBytes(32));
  return readFile(file);
}
