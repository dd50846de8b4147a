/**
 * Where kluctl works. What one run needs or leaves behind, logins and rendered secrets among it, lies in a directory that
 * goes with the run; what makes the next run faster stays. kluctl has one place for both, so the caches are links in it.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, stat, symlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { createWorkDirectories, removeDirectory } from "../work-directories.ts";
import { makePrivate } from "./private-directory.ts";
import { linkUnpacked } from "./unpacked.ts";
import type { Unpacked } from "./warm/layout.ts";

export interface JobDirectory {
  /** Readable by us only. */
  readonly path: string;
  /** For gpg, and empty. */
  readonly keyring: string;
  /** Variables that send kluctl to the right places. */
  readonly env: Readonly<Record<string, string>>;
  remove(): Promise<void>;
}

export interface Directories {
  readonly unpacked: Unpacked;
  /** Makes the places if need be; the first time it clears what crashed servers left in them. */
  prepare(): Promise<void>;
  /**
   * kluctl keys its git mirrors and charts by URL, whoever fetched them. So runs that bring no logins share one cache,
   * and the others share one per namespace: within it everybody may name every secret anyway.
   *
   * What it finds out about a cluster it keys by the host alone, and believes for a day. The server's own cluster is one;
   * of other clusters, each has a place of its own in each namespace: two may be behind one host, and a namespace's
   * kubeconfig may say of any host that it is there.
   */
  create(namespace: string, of: { bringsLogins: boolean; cluster?: string | undefined }): Promise<JobDirectory>;
  /**
   * For a run that nobody else's may be mixed with: its caches are its own, and what kluctl would unpack is there as links,
   * by their names.
   */
  createOwn(unpacked: ReadonlyMap<string, string>): Promise<OwnDirectory>;
}

export interface OwnDirectory extends JobDirectory {
  /** Of what kluctl puts there: all that its renderers have to read. */
  readonly included: readonly string[];
}

/** Below the base directory (kluctl up to 2.22) or the cache directory (since 2.23). */
const caches = ["git-cache", "helm-charts", "oci", "kube-cache"];
const clusterCache = "kube-cache";
const staleAfterMs = 24 * 3_600_000;
/** Of a cluster that nothing is deployed to any more. */
const forgottenAfterMs = 7 * 24 * 3_600_000;

export interface DirectoriesOptions {
  readonly cacheDir: string;
  readonly workDir: string;
  /** Read, never written: see unpacked.ts. */
  readonly unpackedDir?: string | undefined;
  /** Removes what a run has left. */
  readonly remove?: ((path: string) => Promise<void>) | undefined;
}

export function createDirectories(options: DirectoriesOptions): Directories {
  const { cacheDir, workDir, unpackedDir, remove = removeDirectory } = options;
  const work = createWorkDirectories(workDir);
  // kluctl up to 2.22 unpacks its Python below TMPDIR, later ones below their cache directory. It takes seconds and is
  // the same for everybody, so there is one for all.
  const temporary = join(cacheDir, "tmp");
  const python = join(cacheDir, "python");
  let swept: Promise<void> | undefined;

  async function makeCache(path: string): Promise<void> {
    await Promise.all([python, temporary, ...caches.map((name) => join(path, name))].map(makePrivate));
    await link(python, join(path, "go-embed-jinja2"));
  }

  /** The same caches but for what is known of the cluster. */
  async function makeClusterCache(path: string, cache: string): Promise<void> {
    await makePrivate(join(path, clusterCache));
    const others = [...caches.filter((name) => name !== clusterCache), "go-embed-jinja2"];
    await Promise.all(others.map((name) => link(join(cache, name), join(path, name))));
    const now = new Date();
    await utimes(path, now, now); // it is in use, see sweepClusters
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

    async prepare() {
      await Promise.all([workDir, temporary, python].map(makePrivate));
      // Tried again after a failure: a disk that was full may not be any more.
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
      const own = join(base, String(process.getuid?.() ?? 0)); // where kluctl looks in its base
      // Both are over before the failure of one removes what the other makes.
      const made = await Promise.allSettled([
        makeCache(common),
        clusterDir ? makeClusterCache(cache, common) : undefined,
        makeHomes(path, own, cache),
      ]);
      const failed = made.find(({ status }) => status === "rejected");
      if (failed?.status === "rejected") {
        await removeDirectory(path).catch(() => undefined); // a full disk is tried again and again: each try would leave one
        throw failed.reason as Error;
      }
      return {
        path,
        keyring: join(path, "gpg"),
        env: {
          HOME: join(path, "home"),
          GNUPGHOME: join(path, "gpg"), // without it, SOPS looks into the home of the server's user, whatever HOME says
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
        // Up to 2.22, and since 2.23.
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

/** Where kluctl clones to what a project includes, below its base directory. */
const inclusions = ["git-cloned", "oci-pulled"];

/** Two runs may do it at once. */
async function link(target: string, path: string): Promise<void> {
  await symlink(target, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

/** What kluctl and its helpers left behind when they were killed; never the unpacked Python. */
async function sweepTemporary(dir: string): Promise<void> {
  for (const { path, name, mtimeMs } of await list(dir)) {
    if (!name.startsWith("go-embedded-") && mtimeMs < Date.now() - staleAfterMs) await removeDirectory(path);
  }
}

/** Clones that were broken off: kluctl renames only a whole one to what it looks for. */
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
    const info = await stat(path).catch(() => undefined); // it may just be removed
    return info && { path, name, mtimeMs: info.mtimeMs };
  });
  return (await Promise.all(entries)).filter((entry) => entry !== undefined);
}
