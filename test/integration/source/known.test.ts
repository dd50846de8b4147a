/** What is known of a repository is told without asking its remote, and to each login only what it was shown. */
import { expect, test } from "vitest";
import { login, useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;
const main = { branch: "main" };

test("the message and the author of a commit come from the mirror; without it, or without the commit, they are unknown", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.write("a.txt", "one");
  const commit = repo.push("Raise the limit\n\nFor the sale.");
  const { sources } = useSources();
  const known = (of: string) => sources.knownAuthorship(repo, of, signal);
  expect(await known(commit)).toBeUndefined();
  expect(await sources.knownHeads(repo)).toBeUndefined();
  expect(host.counts).toEqual({ info: 0, lsRefs: 0, fetch: 0 });

  const { release } = await sources.checkout(
    { kind: "git", ...repo, ref: main, path: "", seen: undefined },
    undefined,
    signal,
  );
  await release();
  const asked = { ...host.counts };
  expect(await known(commit)).toEqual({ subject: "Raise the limit", author: "Ada" });
  const heads = await sources.knownHeads(repo);
  expect(heads?.heads.commits.get("refs/heads/main")).toBe(commit);
  expect(heads?.askedAt).toBeLessThanOrEqual(Date.now());
  expect(await known("1".repeat(40))).toBeUndefined();
  expect(await known("main")).toBeUndefined();
  expect(await known("--all")).toBeUndefined();

  const newer = repo.push("Lower it again");
  expect(await known(newer)).toBeUndefined();
  expect(host.counts).toEqual(asked);
});

test("a login that the remote did not show the commit to does not learn of it from the mirror", async () => {
  const host = await useGitHost({ secured: true });
  const repo = host.repo("shop");
  repo.write("a.txt", "one");
  const commit = repo.push("A secret plan");
  const { sources } = useSources();
  const as = (password: string) => ({
    url: repo.url,
    credentials: [{ host: new URL(repo.url).host, secretName: "login", username: login.username, password }],
  });
  const { release } = await sources.checkout(
    { kind: "git", ...as(login.password), ref: main, path: "", seen: undefined },
    undefined,
    signal,
  );
  await release();
  expect(await sources.knownAuthorship(as(login.password), commit, signal)).toMatchObject({ subject: "A secret plan" });
  expect(await sources.knownAuthorship(as("stolen"), commit, signal)).toBeUndefined();
  expect(await sources.knownHeads(as("stolen"))).toBeUndefined();
});
