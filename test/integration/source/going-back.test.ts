/** A git host with several replicas may answer with an older commit than before. */
import { expect, test } from "vitest";
import { since, type GitHost, type Repo, useGitHost, useSources, type Watched } from "../../support/source.ts";

const signal = new AbortController().signal;

interface Shop extends Watched {
  readonly repo: Repo;
  readonly older: string;
  readonly newer: string;
  /** Makes the host answer with `commit` from its nth `ls-remote` on. */
  at(answer: number, commit: string): void;
  commitNow(seen: string | undefined, move?: string): Promise<string>;
}

async function useShop(limits = { goesBackMs: 1 }): Promise<Shop> {
  const host: GitHost = await useGitHost();
  const repo = host.repo("shop");
  repo.write("a.txt", "one");
  const older = repo.push();
  repo.write("a.txt", "two");
  const newer = repo.push();
  const watched = useSources({ limits });
  const point = (commit: string) => void repo.git("-C", repo.bare, "update-ref", "refs/heads/main", commit);
  async function commitNow(seen: string | undefined, move?: string) {
    const source = { url: repo.url, ref: { branch: "main" }, path: "", credentials: [], seen };
    const { commit, release } = await watched.sources.checkout(source, move ? since(move) : undefined, signal);
    await release();
    return commit;
  }
  await commitNow(undefined);
  watched.seen.lsRemotes = 0;
  let asked = 0;
  const points = new Map<number, string>();
  host.fault = (_req, _res, kind) => {
    if (kind !== "ls-refs") return false;
    const commit = points.get(++asked);
    if (commit !== undefined) point(commit);
    return false;
  };
  return { ...watched, repo, older, newer, at: (answer, commit) => void points.set(answer, commit), commitNow };
}

test("an answer with an older commit is discarded if the next one disagrees", async () => {
  const { older, newer, at, commitNow, seen } = await useShop();
  at(1, older);
  at(2, newer);
  expect(await commitNow(newer)).toBe(newer);
  expect(seen.lsRemotes).toBe(2);
});

test("a branch that was reset is accepted with the second answer", async () => {
  const { older, newer, at, commitNow, seen } = await useShop();
  at(1, older);
  expect(await commitNow(newer)).toBe(older);
  expect(seen.lsRemotes).toBe(2);
});

test("a branch that moved forward or was rewritten is accepted at once", async () => {
  const { repo, older, newer, commitNow, seen } = await useShop();
  expect(await commitNow(older)).toBe(newer);
  repo.git("reset", "-q", "--hard", older);
  repo.write("a.txt", "three");
  repo.git("commit", "-q", "-am", "beside");
  repo.git("push", "-q", "--force", "origin", "main");
  const beside = repo.git("rev-parse", "HEAD").trim();
  expect(await commitNow(newer)).toBe(beside);
  expect(seen.lsRemotes).toBe(2);
});

test("if the previous commit is unknown, git is asked twice", async () => {
  const { newer, commitNow, seen } = await useShop();
  expect(await commitNow("1".repeat(40))).toBe(newer);
  expect(seen.lsRemotes).toBe(2);
  expect(await commitNow("not a commit")).toBe(newer);
  expect(seen.lsRemotes).toBe(3);
});

test("checkouts for the same move share the second answer too", async () => {
  const { older, newer, at, commitNow, seen } = await useShop({ goesBackMs: 50 });
  at(1, older);
  at(2, newer);
  const all = await Promise.all(Array.from({ length: 5 }, () => commitNow(newer, "push")));
  expect(new Set(all)).toEqual(new Set([newer]));
  expect(seen.lsRemotes).toBe(1); // the first answer comes with a fetch
});

test("a reset that git has returned twice is accepted at once for the deployments that come later", async () => {
  const { older, newer, at, commitNow, seen } = await useShop({ goesBackMs: 50 });
  at(1, older);
  expect(await commitNow(newer, "push")).toBe(older);
  const { lsRemotes, fetches } = seen;
  for (let i = 0; i < 3; i++) expect(await commitNow(newer, "push")).toBe(older);
  expect(seen).toEqual({ lsRemotes, fetches });
});
