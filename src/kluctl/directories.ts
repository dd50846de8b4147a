/**
 * The directories that kluctl works in. Everything one run needs or leaves behind, including logins and rendered
 * secrets, is in a directory that is removed with the run; the caches that make the next run faster are kept. kluctl
 * expects both in one place, so the run's directory holds links to the caches.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, stat, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { createWorkDirectories, removeDirectory } from "../kit/work-directories.ts";
import { makePrivate } from "./private-directory.ts";
import { linkUnpacked } from "./unpacked.ts";
import type { Unpacked } from "./warm/layout.ts";

export interface JobDirectory {
  /** Readable only by the server's user. */
  readonly path: string;
  /** The GnuPG home directory, initially empty. */
  readonly keyring: string;
  /** Environment variables that point kluctl to these directories. */
  readonly env: Readonly<Record<string, string>>;
  remove(): Promise<void>;
}

export interface Directories {
  readonly unpacked: Unpacked;
  /** A file with the version of the kluctl that has unpacked its Python last. */
  readonly unpackedBy: string;
  /** Creates the directories if necessary; the first call also removes what crashed servers left in them. */
  prepare(): Promise<void>;
  /**
   * kluctl keys its git mirrors and charts by URL, regardless of the login that fetched them. So runs without logins
   * share one cache, and runs with logins share one per namespace: deployments of a namespace may refer to every secret
   * in it anyway.
   *
   * kluctl keys its discovery cache of a cluster by host alone and trusts it for a day. The server's own cluster uses
   * the shared or namespace cache; every other cluster has a directory of its own per namespace, because two clusters
   * may be behind one host, and a namespace's kubeconfig can claim any host.
   */
  create(namespace: string, of: { bringsLogins: boolean; cluster?: string | undefined }): Promise<JobDirectory>;
  /**
   * Creates a directory for a run that must not share anything with other runs: it has caches of its own, and the files
   * that kluctl would unpack are present as links. `unpacked` maps their names to the targets.
   */
  createOwn(unpacked: ReadonlyMap<string, string>): Promise<OwnDirectory>;
}

export interface OwnDirectory extends JobDirectory {
  /**
   * The directories below `path` that kluctl clones or pulls included projects into; its renderers must be able to read
   * them.
   */
  readonly included: readonly string[];
}

/** Below the base directory (kluctl up to 2.22) or the cache directory (since 2.23). */
const caches = ["git-cache", "helm-charts", "oci", "kube-cache"];
const clusterCache = "kube-cache";
const staleAfterMs = 24 * 3_600_000;
/** Age at which the cache of a cluster that no deployment uses any more is removed. */
const forgottenAfterMs = 7 * 24 * 3_600_000;

export interface DirectoriesOptions {
  readonly cacheDir: string;
  readonly workDir: string;
  /** Only read, never written; see unpacked.ts. */
  readonly unpackedDir?: string | undefined;
  /** Removes the directory of a finished run. */
  readonly remove?: ((path: string) => Promise<void>) | undefined;
}

export function createDirectories(options: DirectoriesOptions): Directories {
  const { cacheDir, workDir, unpackedDir, remove = removeDirectory } = options;
  const work = createWorkDirectories(workDir);
  // kluctl up to 2.22 unpacks its Python below TMPDIR, later versions below their cache directory. Unpacking takes
  // seconds and gives the same files for every run, so all runs share one copy.
  const temporary = join(cacheDir, "tmp");
  const python = join(cacheDir, "python");
  let swept: Promise<void> | undefined;

  async function makeCache(path: string): Promise<void> {
    await Promise.all([python, temporary, ...caches.map((name) => join(path, name))].map(makePrivate));
    await link(python, join(path, "go-embed-jinja2"));
  }

  /** Links to the caches of `cache`, with a discovery cache of its own. */
  async function makeClusterCache(path: string, cache: string): Promise<void> {
    await makePrivate(join(path, clusterCache));
    const others = [...caches.filter((name) => name !== clusterCache), "go-embed-jinja2"];
    await Promise.all(others.map((name) => link(join(cache, name), join(path, name))));
    const now = new Date();
    await utimes(path, now, now); // marks the directory as in use, see sweepClusters
  }

  async function makeHomes(path: string, own: string, cache: string): Promise<void> {
    await Promise.all([
      mkdir(own, { recursive: true, mode: 0o700 }),
      mkdir(join(path, "home")),
      mkdir(join(path, "gpg"), { mode: 0o700 }),
    ]);
    await Promise.all(caches.map((name) => link(join(cache, name), join(own, name))));
  }

  async function sweep(): Promise<void> {
    await Promise.all([work.sweep(), sweepTemporary(temporary), sweepMirrors(cacheDir), sweepClusters(cacheDir)]);
    if (unpackedDir !== undefined) await linkUnpacked(unpackedDir, cacheDir);
  }

  return {
    unpacked: { temporary, python, copies: join(cacheDir, "warm") },
    unpackedBy: join(cacheDir, "unpacked-by"),

    async prepare() {
      await Promise.all([workDir, temporary, python].map(makePrivate));
      // Retry after a failure: a full disk may have space again.
      swept ??= sweep().catch((error: unknown) => {
        swept = undefined;
        throw error;
      });
      await swept;
    },

    async create(namespace, { bringsLogins, cluster }) {
      if (!/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(namespace)) throw new Error(`"${namespace}" is not a namespace`);
      const common = bringsLogins ? join(cacheDir, "namespaces", namespace) : join(cacheDir, "shared");
      const clusterDir =
        cluster && createHash("sha256").update(`${namespace} ${bringsLogins} ${cluster}`).digest("hex");
      const cache = clusterDir ? join(cacheDir, "clusters", clusterDir) : common;
      const path = await work.create();
      const base = join(path, "base");
      const own = join(base, String(process.getuid?.() ?? 0)); // the directory that kluctl uses below its base
      // Wait for both to settle, so that cleaning up after one failure does not race with the other.
      const made = await Promise.allSettled([
        makeCache(common),
        clusterDir ? makeClusterCache(cache, common) : undefined,
        makeHomes(path, own, cache),
      ]);
      const failed = made.find(({ status }) => status === "rejected");
      if (failed?.status === "rejected") {
        await removeDirectory(path).catch(() => undefined); // on a full disk every retry would leave a directory behind
        throw failed.reason as Error;
      }
      return {
        path,
        keyring: join(path, "gpg"),
        env: {
          HOME: join(path, "home"),
          GNUPGHOME: join(path, "gpg"), // without it, SOPS uses the home of the server's user, whatever HOME says
          TMPDIR: temporary,
          KLUCTL_BASE_TMP_DIR: base,
          KLUCTL_CACHE_DIR: cache,
        },
        remove: () => remove(path),
      };
    },

    async createOwn(unpackedDirs) {
      const path = await work.create();
      const [base, home, gpg, tmp, cache] = ["base", "home", "gpg", "tmp", "cache"].map((name) => join(path, name)) as [
        string,
        string,
        string,
        string,
        string,
      ];
      const own = join(base, String(process.getuid?.() ?? 0));
      const libraries = join(cache, "go-embed-jinja2");
      const included = inclusions.map((name) => join(own, name));
      try {
        for (const dir of [home, gpg, tmp, libraries, ...included]) await mkdir(dir, { recursive: true, mode: 0o700 });
        // kluctl up to 2.22 looks in TMPDIR (`go-embedded-…`), since 2.23 in its cache directory.
        for (const [name, target] of unpackedDirs)
          await symlink(target, join(name.startsWith("go-embedded-") ? tmp : libraries, name));
      } catch (error) {
        await removeDirectory(path).catch(() => undefined);
        throw error;
      }
      return {
        path,
        keyring: gpg,
        included,
        env: { HOME: home, GNUPGHOME: gpg, TMPDIR: tmp, KLUCTL_BASE_TMP_DIR: base, KLUCTL_CACHE_DIR: cache },
        remove: () => remove(path),
      };
    },
  };
}

/** The directories below kluctl's base directory that it clones or pulls included projects into. */
const inclusions = ["git-cloned", "oci-pulled"];

/** Creates a symbolic link; two runs may do so at the same time. */
async function link(target: string, path: string): Promise<void> {
  await symlink(target, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/** Removes what kluctl and its helpers left behind when they were killed, but never the unpacked Python. */
async function sweepTemporary(dir: string): Promise<void> {
  for (const { path, name, mtimeMs } of await list(dir)) {
    if (!name.startsWith("go-embedded-") && mtimeMs < Date.now() - staleAfterMs) await removeDirectory(path);
  }
}

/** Removes interrupted clones: kluctl renames a clone to its final name only once it is complete. */
async function sweepMirrors(cacheDir: string): Promise<void> {
  const roots = [{ path: join(cacheDir, "shared") }, ...(await list(join(cacheDir, "namespaces")))];
  for (const root of roots) {
    for (const { path, name, mtimeMs } of await list(join(root.path, "git-cache"))) {
      if (name.startsWith("tmp-mirror-") && mtimeMs < Date.now() - staleAfterMs) await removeDirectory(path);
    }
  }
}

async function sweepClusters(cacheDir: string): Promise<void> {
  for (const { path, mtimeMs } of await list(join(cacheDir, "clusters"))) {
    if (mtimeMs < Date.now() - forgottenAfterMs) await removeDirectory(path);
  }
}

async function list(dir: string): Promise<{ path: string; name: string; mtimeMs: number }[]> {
  const entries = (await readdir(dir).catch(() => [])).map(async (name) => {
    const path = join(dir, name);
    const info = await stat(path).catch(() => undefined); // it may have been removed meanwhile
    return info && { path, name, mtimeMs: info.mtimeMs };
  });
  return (await Promise.all(entries)).filter((entry) => entry !== undefined);
}
