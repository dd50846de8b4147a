/** The real components that a test requests. All of them belong to the test and end with it. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { inject, onTestFinished } from "vitest";
import { type GitHttp, type GitHttpOptions, startGitHttp } from "../../dev/parts/git-http.ts";
import { previewAccountObjects } from "../../dev/parts/preview-account.ts";
import { createGiteaClient, type GiteaClient, type GiteaRepository } from "../../dev/parts/gitea-client.ts";
import type { GiteaLogin } from "../../dev/parts/gitea.ts";
import { createWorkCopy, type WorkCopy } from "../../dev/parts/work-copy.ts";
import { cacheDir } from "../../dev/cache.ts";
import { findTools } from "../../dev/tools.ts";
import type { Addresses, PartName } from "../../dev/world.ts";
import { type TestCluster, useNamespace } from "./world-cluster.ts";

/** A name that no other test uses. */
export function uniqueName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

export async function useTempDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true, maxRetries: 5 }));
  return dir;
}

/** Creates a directory with these files. */
export async function useFiles(files: Readonly<Record<string, string>>): Promise<string> {
  const root = await useTempDir();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), text);
  }
  return root;
}

/** Returns the addresses of a shared part, which is started if it is not running yet. */
async function findPart<Name extends PartName>(name: Name): Promise<Addresses[Name]> {
  const response = await fetch(`${inject("world")}/${name}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return JSON.parse(text) as Addresses[Name];
}

/** The shared Redis, and a key prefix of this test. */
async function useRedis(): Promise<{ url: string; prefix: string }> {
  const { url } = await findPart("redis");
  return { url, prefix: uniqueName("test") };
}

/** The shared control plane, and a namespace of this test. */
export async function useCluster(): Promise<TestCluster> {
  const { kubeconfig } = await findPart("controlPlane");
  return useNamespace(kubeconfig, uniqueName("test"));
}

/** Path of the real kluctl. */
export async function useKluctl(): Promise<string> {
  const { kluctl } = await findTools(["kluctl"], { say: () => undefined });
  return kluctl;
}

export interface TestRepository extends WorkCopy {
  /** The URL that a KluctlDeployment names. */
  readonly url: string;
}

/** A git server for this test without a forge. */
export async function useGitServer(
  login?: GitHttpOptions["login"],
): Promise<GitHttp & { repo(name: string): Promise<TestRepository> }> {
  const dir = await useTempDir();
  const server = await startGitHttp({ root: join(dir, "bare"), login });
  onTestFinished(() => server.stop());
  return {
    ...server,
    async repo(name) {
      const url = await server.createRepository(name);
      const remote = new URL(url);
      remote.username = login?.username ?? "";
      remote.password = login?.password ?? "";
      return { url, ...(await createWorkCopy(join(dir, "work", name), remote.href)) };
    },
  };
}

export interface TestForge extends GiteaClient {
  readonly login: GiteaLogin;
  /** An organization of this test. */
  readonly organization: string;
  repo(name: string): Promise<TestRepository & GiteaRepository>;
}

/** The shared Gitea, and an organization of this test. */
export async function useGitea(): Promise<TestForge> {
  const login = await findPart("gitea");
  const client = createGiteaClient(login);
  const organization = uniqueName("test");
  const dir = await useTempDir();
  await client.createOrganization(organization);
  return {
    ...client,
    login,
    organization,
    async repo(name) {
      const repository = await client.createRepository(organization, name);
      onTestFinished(() => client.call("DELETE", `/repos/${organization}/${name}`));
      return {
        ...repository,
        url: repository.cloneUrl,
        ...(await createWorkCopy(join(dir, name), repository.pushUrl)),
      };
    },
  };
}

export interface TestWorld {
  readonly cluster: TestCluster;
  readonly redis: { readonly url: string; readonly prefix: string };
  readonly dir: string;
  readonly kluctl: string;
  /** Directory of kluctl's unpacked Python: unpacking it again for each test would take seconds. */
  readonly kluctlCache: string;
  /** Creates a repository of this test, served over HTTP. */
  repo(name: string): Promise<TestRepository>;
}

/** Creates the account with which pull requests are previewed, if the test enables that. */
async function createPreviewAccount({ namespace, objects }: TestCluster): Promise<void> {
  const bodies = previewAccountObjects(namespace).map(({ body }) => body);
  for (const body of bodies) await objects.create(body);
  onTestFinished(async () => {
    if (!inject("worldEnds")) for (const body of bodies) await objects.delete(body).catch(() => undefined);
  });
}

/**
 * A cluster, a Redis, a git server and the real kluctl. The cluster is the shared one, unless the test has one of its
 * own.
 */
export async function useWorld(own?: TestCluster): Promise<TestWorld> {
  const [cluster, redis, git, dir, kluctl] = await Promise.all([
    (own ? Promise.resolve(own) : useCluster()).then(async (cluster) => {
      await createPreviewAccount(cluster);
      return cluster;
    }),
    useRedis(),
    useGitServer(),
    useTempDir(),
    useKluctl(),
  ]);
  return { cluster, redis, dir, kluctl, kluctlCache: join(cacheDir(), "kluctl"), repo: (name) => git.repo(name) };
}
