/** A repository that is known to have moved is fetched without listing its refs first. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commitOf } from "../../../src/model/git-ref.ts";
import { since, useGitHost, useSources, type Repo, type Watched } from "../../support/source.ts";

const signal = new AbortController().signal;

async function useShop(): Promise<{ repo: Repo; watched: Watched; repository: { url: string; credentials: [] } }> {
  const repo = (await useGitHost()).repo("shop");
  repo.write("a.txt", "one");
  repo.push();
  return { repo, watched: useSources(), repository: { url: repo.url, credentials: [] } };
}

/** Creates the mirror. */
async function checkOut({ sources }: Watched, url: string, move = "start") {
  return sources.checkout({ url, ref: {}, credentials: [], path: "" }, since(move), signal);
}

test("a repository that has moved is fetched without an ls-remote, with the same result", async () => {
  const { repo, watched, repository } = await useShop();
  const { sources, seen } = watched;
  repo.git("checkout", "-q", "-b", "old");
  repo.push();
  await (await checkOut(watched, repo.url)).release();
  repo.git("push", "-q", "origin", ":old");
  repo.git("checkout", "-q", "-b", "feature/x");
  const commit = repo.push("another default branch");
  repo.git("tag", "light");
  repo.git("tag", "-a", "-m", "annotated", "v1");
  repo.git("push", "-q", "origin", "--tags");
  repo.git("-C", repo.bare, "symbolic-ref", "HEAD", "refs/heads/feature/x");
  Object.assign(seen, { lsRemotes: 0, fetches: 0 });

  const fetched = await sources.heads(repository, since("push"));
  const checkout = await checkOut(watched, repo.url, "push");

  expect(seen).toEqual({ lsRemotes: 0, fetches: 1 });
  expect(checkout.commit).toBe(commit);
  await checkout.release();
  expect(commitOf({}, fetched)).toBe(commit);
  expect(commitOf({ tag: "v1" }, fetched)).toBe(commit);
  expect(fetched).toEqual(await sources.heads(repository, undefined));
});

test("if the repository has not moved after all, the same checkout is used", async () => {
  const { repo, watched } = await useShop();
  const first = await checkOut(watched, repo.url);
  const second = await checkOut(watched, repo.url, "one");
  const third = await checkOut(watched, repo.url, "two");

  expect(third.root).toBe(second.root);
  expect(watched.seen).toEqual({ lsRemotes: 1, fetches: 3 });
  for (const { release } of [first, second, third]) await release();
});

test("refs are listed if there is no mirror, or if the fetch does not reveal them", async () => {
  const { repo, watched, repository } = await useShop();
  const { sources, seen } = watched;
  await sources.heads(repository, since("no mirror"));
  expect(seen).toEqual({ lsRemotes: 1, fetches: 0 });
  await (await checkOut(watched, repo.url)).release();
  const fetches = seen.fetches;

  repo.git("-C", repo.bare, "symbolic-ref", "HEAD", "refs/heads/nowhere");
  const next = repo.push();
  const heads = await sources.heads(repository, since("HEAD points nowhere"));
  expect(heads.commits.get("refs/heads/main")).toBe(next);
  expect(commitOf({}, heads)).toBeUndefined();
  expect(seen.fetches).toBe(fetches + 1);

  repo.git("-C", repo.bare, "symbolic-ref", "HEAD", "refs/heads/main");
  repo.git("tag", "-a", "-m", "inner", "inner");
  repo.git("tag", "-a", "-m", "outer", "outer", "inner");
  repo.git("push", "-q", "origin", "--tags");
  const tagged = await sources.heads(repository, since("a tag of a tag"));
  expect(commitOf({ tag: "outer" }, tagged)).toBe(next);
});

test("a damaged mirror is created again by the fetch that finds it", async () => {
  const { repo, watched } = await useShop();
  await (await checkOut(watched, repo.url)).release();
  const mirror = join(watched.cacheDir, "mirrors", watched.mirrors()[0] ?? "");
  rmSync(join(mirror, "objects"), { recursive: true });
  writeFileSync(join(mirror, "HEAD"), "garbage");
  const commit = repo.push();

  const checkout = await checkOut(watched, repo.url, "push");

  expect(checkout.commit).toBe(commit);
  await checkout.release();
});

test("a failed fetch reports the same error as listing would have", async () => {
  const { repo, watched, repository } = await useShop();
  await (await checkOut(watched, repo.url)).release();
  rmSync(repo.bare, { recursive: true });

  await expect(watched.sources.heads(repository, since("push"))).rejects.toMatchObject({ problem: "not-found" });
});
