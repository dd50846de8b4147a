/** Whether a commit contains another one is decided by git, for what the remote has shown to the login. */
import { expect, test } from "vitest";
import { useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;

test("a commit contains itself and what it leads back to, and neither what follows nor what lies beside it", async () => {
  const host = await useGitHost();
  const repo = host.repo("library");
  const push = (text: string) => {
    repo.write("a.txt", text);
    return repo.push();
  };
  const [first, merge, revert] = [push("one"), push("two"), push("one")];
  const { sources } = useSources();
  const contains = (commit: string, ancestor: string) => sources.contains(repo, commit, ancestor, signal);
  expect(await contains(merge, merge)).toBe(true);
  expect(await contains(merge, first)).toBe(true);
  expect(await contains(first, merge)).toBe(false);
  // The merge was deployed together with what takes it back.
  expect(await contains(revert, merge)).toBe(true);

  repo.git("reset", "-q", "--hard", first);
  repo.write("a.txt", "three");
  repo.git("commit", "-q", "-am", "beside");
  repo.git("push", "-q", "--force", "origin", "main");
  const beside = repo.git("rev-parse", "HEAD").trim();
  expect(await contains(beside, first)).toBe(true);
  expect(await contains(beside, merge)).toBe(false);
});

test("a commit that git does not have is an error, and one that it never had is contained in none", async () => {
  const host = await useGitHost();
  const repo = host.repo("library");
  repo.write("a.txt", "one");
  const commit = repo.push();
  const { sources } = useSources();
  const unknown = "1".repeat(40);
  await expect(sources.contains(repo, unknown, commit, signal)).rejects.toMatchObject({ problem: "ref-not-found" });
  expect(await sources.contains(repo, commit, unknown, signal)).toBe(false);
});
