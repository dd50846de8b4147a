import { mkdir, readdir, readlink, realpath, rename, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createDirectories } from "../../../src/kluctl/directories.ts";
import { useTempDir } from "../../support/world.ts";

async function useDirectories() {
  const dir = await useTempDir();
  const create = () => createDirectories({ cacheDir: join(dir, "cache"), workDir: join(dir, "work") });
  const directories = create();
  await directories.prepare();
  /** Where kluctl looks: 2.22 below its base directory, later versions in their cache directory. */
  async function placesOf(namespace: string, of: { bringsLogins?: boolean; cluster?: string }, name: string) {
    const job = await directories.create(namespace, { bringsLogins: false, ...of });
    const { KLUCTL_BASE_TMP_DIR: base = "", KLUCTL_CACHE_DIR: cache = "" } = job.env;
    const places = [join(base, String(process.getuid?.() ?? 0), name), join(cache, name)];
    const found = await Promise.all(places.map((place) => realpath(place)));
    await job.remove();
    expect(found[0]).toBe(found[1]);
    return found[0];
  }
  return { dir, create, placesOf };
}

test("the cache of one cluster is not used for another cluster or namespace", async () => {
  const { placesOf } = await useDirectories();
  const known = (namespace: string, of: { bringsLogins?: boolean; cluster?: string }) =>
    placesOf(namespace, of, "kube-cache");
  const own = await known("shop", {});
  const others = await Promise.all([
    known("shop", { cluster: "a" }),
    known("shop", { cluster: "b" }),
    known("pay", { cluster: "a" }),
    known("pay", { cluster: "a", bringsLogins: true }),
    known("pay", { bringsLogins: true }),
  ]);
  expect(new Set([own, ...others]).size).toBe(6);
  expect(await known("pay", {})).toBe(own);
  expect(await known("shop", { cluster: "a" })).toBe(others[0]);
});

test("charts and mirrors are shared by all clusters", async () => {
  const { placesOf } = await useDirectories();
  for (const name of ["git-cache", "helm-charts", "oci"]) {
    expect(await placesOf("shop", { cluster: "a" }, name)).toBe(await placesOf("pay", {}, name));
    const ours = await placesOf("shop", { bringsLogins: true }, name);
    expect(await placesOf("shop", { bringsLogins: true, cluster: "a" }, name)).toBe(ours);
  }
});

test("the cache of a cluster without recent deployments is removed", async () => {
  const { dir, create, placesOf } = await useDirectories();
  for (const cluster of ["a", "b"]) await placesOf("shop", { cluster }, "kube-cache");
  const clusters = join(dir, "cache", "clusters");
  const [forgotten = ""] = await readdir(clusters);
  const longAgo = new Date(Date.now() - 8 * 24 * 3_600_000);
  await utimes(join(clusters, forgotten), longAgo, longAgo);
  await create().prepare();
  expect(await readdir(clusters)).toHaveLength(1);
  expect(await readdir(clusters)).not.toContain(forgotten);
});

test("files unpacked in an image are used through links, and missing ones are unpacked again", async () => {
  const dir = await useTempDir();
  const [cacheDir, unpackedDir] = [join(dir, "cache"), join(dir, "image")];
  const prepare = () => createDirectories({ cacheDir, workDir: join(dir, "work"), unpackedDir }).prepare();
  await prepare(); // without an image, nothing changes
  await mkdir(join(unpackedDir, "python/python-1/bin"), { recursive: true });
  await mkdir(join(unpackedDir, "tmp/go-embedded-1"), { recursive: true });
  await writeFile(join(unpackedDir, "python/python-1.lock"), "");
  await mkdir(join(cacheDir, "python/libraries-1")); // unpacked by kluctl itself earlier
  await Promise.all([prepare(), prepare()]);
  expect(await readdir(join(cacheDir, "python"))).toEqual(["libraries-1", "python-1"]);
  expect(await readlink(join(cacheDir, "python/python-1"))).toBe(join(unpackedDir, "python/python-1"));
  expect(await readdir(join(cacheDir, "tmp"))).toEqual(["go-embedded-1"]);

  await rename(join(unpackedDir, "python/python-1"), join(unpackedDir, "python/python-2"));
  await prepare();
  expect(await readdir(join(cacheDir, "python"))).toEqual(["libraries-1", "python-2"]);
});
