import { cp } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { useGitServer, useTempDir } from "../../support/world.ts";

test("pushed commits are listed, and the server counts each listing", async () => {
  const git = await useGitServer();
  const repo = await git.repo("shop");
  const commit = await repo.push({ "a.txt": "one\n" });
  const before = git.requests.infoRefs;

  const heads = await repo.git("ls-remote", repo.url, "refs/heads/main");

  expect(heads).toContain(commit);
  expect(git.requests.infoRefs).toBe(before + 1);
});

test("branches are created, force-pushed and deleted, and tags are pushed", async () => {
  const git = await useGitServer();
  const repo = await git.repo("shop");
  await repo.push({ "a.txt": "one\n" });
  const feature = await repo.push({ "b.txt": "two\n" }, { branch: "feature" });
  await repo.pushTag("v1");
  const forced = await repo.push({ "c.txt": "three\n" }, { branch: "feature", force: true });

  const refs = await repo.git("ls-remote", "origin");
  expect(refs).toContain(`${feature}\trefs/tags/v1`);
  expect(refs).toContain(`${forced}\trefs/heads/feature`);
  expect(await repo.git("rev-list", "--count", forced)).toBe("1");

  await repo.deleteBranch("feature");
  expect(await repo.git("ls-remote", "origin", "refs/heads/feature")).toBe("");
});

test("a login is required, and a staged failure lasts until it is removed", async () => {
  const git = await useGitServer({ username: "ada", password: "a password of this test" });
  const repo = await git.repo("shop");
  await repo.push({ "a.txt": "one\n" });

  await expect(repo.git("ls-remote", repo.url)).rejects.toThrow(/could not read Username/);

  git.failWith(503);
  await expect(repo.git("ls-remote", "origin")).rejects.toThrow(/503/);
  git.failWith(undefined);
  expect(await repo.git("ls-remote", "origin")).toContain("refs/heads/main");
});

test("a lagging replica shows its old state while pushes succeed", async () => {
  const git = await useGitServer();
  const repo = await git.repo("shop");
  const before = await repo.push({ "a.txt": "one\n" });
  const copy = join(await useTempDir(), "as-it-was");
  await cp(join(dirname(dirname(repo.dir)), "bare"), copy, { recursive: true });

  git.readFrom(copy);
  const after = await repo.push({ "a.txt": "two\n" });
  expect(await repo.git("ls-remote", "origin", "refs/heads/main")).toContain(before);

  git.readFrom(undefined);
  expect(await repo.git("ls-remote", "origin", "refs/heads/main")).toContain(after);
});
