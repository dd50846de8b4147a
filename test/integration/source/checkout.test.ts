import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { GitRef } from "../../../src/model.ts";
import { since, useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;
const none = { credentials: [], path: "" };

test("every kind of ref resolves to its commit", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("a.txt", "one");
  const first = repo.push();
  repo.git("tag", "light");
  repo.git("tag", "-a", "-m", "annotated", "v1");
  repo.git("push", "-q", "origin", "--tags");
  repo.git("checkout", "-q", "-b", "feature/x");
  repo.write("a.txt", "two");
  const second = repo.push();
  const { sources, work } = useSources();

  const cases: [GitRef, string, string][] = [
    [{}, first, "one"],
    [{ branch: "main" }, first, "one"],
    [{ branch: "feature/x" }, second, "two"],
    [{ tag: "light" }, first, "one"],
    [{ tag: "v1" }, first, "one"],
    [{ commit: second }, second, "two"],
  ];
  for (const [ref, commit, content] of cases) {
    const checkout = await sources.checkout({ url: repo.url, ref, ...none }, undefined, signal);
    expect(checkout.commit).toBe(commit);
    expect(readFileSync(join(checkout.projectDir, "a.txt"), "utf8")).toBe(content);
    await checkout.release();
  }
  expect(work()).toEqual([]);
});

test("a checkout is a normal clone with its whole history, detached, and with its remote configured", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push("first");
  repo.write("app/deployment.yaml", "{}");
  const commit = repo.push("second");
  const { sources } = useSources();

  const { root, projectDir, release } = await sources.checkout(
    { url: repo.url, ref: {}, credentials: [], path: "app" },
    undefined,
    signal,
  );

  expect(projectDir).toBe(join(root, "app"));
  expect(statSync(join(root, ".git")).isDirectory()).toBe(true);
  expect(repo.git("-C", root, "rev-list", "--count", "HEAD")).toBe("2");
  expect(repo.git("-C", root, "remote", "get-url", "origin")).toBe(repo.url);
  expect(repo.git("-C", root, "status", "--porcelain", "--branch")).toBe("## HEAD (no branch)");
  expect(readFileSync(join(root, ".git/HEAD"), "utf8").trim()).toBe(commit);
  expect(existsSync(join(root, ".git/objects/info/alternates"))).toBe(false);
  expect(repo.git("-C", root, "fsck", "--strict")).toBe("");
  await release();
  await release();
  expect(existsSync(root)).toBe(false);
});

test("new pushes, force-pushes and new branches are seen", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { sources, seen } = useSources();
  const main = { url: repo.url, ref: { branch: "main" }, ...none };
  const commitNow = async (): Promise<string> => {
    const checkout = await sources.checkout(main, undefined, signal);
    await checkout.release();
    return checkout.commit;
  };
  const first = repo.push();
  expect(await commitNow()).toBe(first);
  const second = repo.push();
  expect(await commitNow()).toBe(second);
  repo.git("reset", "-q", "--hard", first);
  const forced = repo.push("forced");
  expect(await commitNow()).toBe(forced);
  repo.git("push", "-q", "origin", ":main");
  repo.git("push", "-q", "origin", "HEAD:refs/heads/main/nested");
  await expect(commitNow()).rejects.toMatchObject({ problem: "ref-not-found" });
  const nested = await sources.checkout({ ...main, ref: { branch: "main/nested" } }, undefined, signal);
  expect(nested.commit).toBe(forced);
  await nested.release();
  expect(seen.fetches).toBe(3); // the nested branch points to a commit that is already there
});

test("a commit that is no longer on any branch can still be pinned", async () => {
  const repo = (await useGitHost()).repo("shop");
  const first = repo.push();
  const lost = repo.push("lost");
  repo.git("reset", "-q", "--hard", first);
  repo.push("instead");
  const { sources, seen } = useSources();

  const checkout = await sources.checkout({ url: repo.url, ref: { commit: lost }, ...none }, undefined, signal);

  expect(checkout.commit).toBe(lost);
  expect(repo.git("-C", checkout.root, "rev-parse", "HEAD")).toBe(lost);
  await checkout.release();
  expect(seen).toEqual({ lsRemotes: 0, fetches: 1 });
});

test.each([
  ["", false],
  [" where it is asked whether it goes back", true],
])("if a branch moves between listing and fetching, it is listed again%s", async (_, compares) => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  const first = repo.push();
  repo.git("commit", "-q", "--amend", "-m", "gone", "--allow-empty");
  repo.git("push", "-q", "-f", "origin", "HEAD");
  const { sources, seen } = useSources();
  let moved = "";
  host.fault = (_req, _res, kind) => {
    if (kind === "info" && seen.lsRemotes === 1 && moved === "") {
      moved = repo.git("commit-tree", "-m", "moved", `${first}^{tree}`);
      repo.git("push", "-q", "-f", "origin", `${moved}:refs/heads/main`);
      repo.git("-C", repo.bare, "reflog", "expire", "--expire=now", "--all");
      repo.git("-C", repo.bare, "gc", "-q", "--prune=now");
    }
    return false;
  };

  const source = { url: repo.url, ref: { branch: "main" }, ...none, ...(compares && { seen: first }) };
  const checkout = await sources.checkout(source, since("1"), signal);

  expect(checkout.commit).toBe(moved);
  await checkout.release();
});

test("two hundred checkouts of one push take one ls-remote, one fetch and one clone", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.write("a.txt", "x");
  const commit = repo.push();
  const { sources, seen, work, mirrors } = useSources();

  const checkouts = await Promise.all(
    Array.from({ length: 200 }, () => sources.checkout({ url: repo.url, ref: {}, ...none }, since("move 1"), signal)),
  );

  expect(new Set(checkouts.map((checkout) => checkout.commit))).toEqual(new Set([commit]));
  expect(new Set(checkouts.map((checkout) => checkout.root)).size).toBe(1);
  expect(work()).toHaveLength(1);
  expect(seen).toEqual({ lsRemotes: 1, fetches: 1 });
  expect(host.counts.info).toBe(2);
  await Promise.all(checkouts.map((checkout) => checkout.release()));
  expect(work()).toEqual([]);
  expect(mirrors()).toHaveLength(1);
});

test("a listing is reused for the same freshness, and for no other", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push();
  const { sources, seen } = useSources();
  const repository = { url: repo.url, credentials: [] };

  const [one, two] = await Promise.all([sources.heads(repository, since("1")), sources.heads(repository, since("1"))]);
  expect(two).toBe(one);
  expect(seen.lsRemotes).toBe(1);
  const next = repo.push("next");
  expect((await sources.heads(repository, since("2"))).commits.get("refs/heads/main")).toBe(next);
  await sources.heads(repository, undefined);
  await sources.heads(repository, undefined);
  expect(seen.lsRemotes).toBe(4);
  expect(one.defaultRef).toBe("refs/heads/main");
});

test("a damaged mirror is created again", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("a.txt", "x");
  repo.push();
  const { sources, cacheDir, mirrors, seen } = useSources();
  const source = { url: repo.url, ref: {}, ...none };
  await (await sources.checkout(source, undefined, signal)).release();
  const mirror = join(cacheDir, "mirrors", mirrors()[0] ?? "");
  repo.git("-C", mirror, "repack", "-adq");
  repo.git("-C", mirror, "pack-refs", "--all");
  rmSync(join(mirror, "objects/pack"), { recursive: true });
  writeFileSync(join(mirror, "HEAD"), "garbage");

  const [one, two] = await Promise.all([
    sources.checkout(source, undefined, signal),
    sources.checkout(source, undefined, signal),
  ]);

  expect(readFileSync(join(one.root, "a.txt"), "utf8")).toBe("x");
  await Promise.all([one.release(), two.release()]);
  expect(seen.fetches).toBe(2);
});

test("a cache directory that is deleted at runtime is created again", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push();
  const { sources, cacheDir } = useSources();
  const source = { url: repo.url, ref: {}, ...none };
  await (await sources.checkout(source, undefined, signal)).release();
  rmSync(cacheDir, { recursive: true });

  await (await sources.checkout(source, undefined, signal)).release();
});
