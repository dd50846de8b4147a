/** All logins share a repository's mirror, and each gets only what the remote has shown to it. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { GitRef, Repository } from "../../../src/model.ts";
import { since, login, useDirectory, useGitHost, useSources, type Watched } from "../../support/source.ts";

const signal = new AbortController().signal;

async function useShop() {
  const host = await useGitHost({ secured: true });
  const repo = host.repo("shop");
  repo.write("a.txt", "one");
  const commit = repo.push();
  const watched = useSources();
  /** The repository, with a password that the host need not accept. */
  const as = (password: string): Repository => ({
    url: repo.url,
    credentials: [{ host: new URL(host.url).host, secretName: "git-login", ...login, password }],
  });
  const take = async (
    password: string,
    ref: GitRef = { branch: "main" },
    { sources }: Pick<Watched, "sources"> = watched,
    seen?: string,
  ) => {
    const source = { ...as(password), ref, path: "", seen } as const;
    const checkout = await sources.checkout(source, undefined, signal);
    const refs = git(checkout.root, "for-each-ref", "--format=%(refname)").split("\n");
    await checkout.release();
    return { commit: checkout.commit, refs };
  };
  const mirror = () => join(watched.cacheDir, "mirrors", watched.mirrors()[0] ?? "");
  return { host, repo, commit, as, take, mirror, ...watched };
}

function git(at: string, ...args: string[]): string {
  return execFileSync("git", ["-C", at, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
}

/** The login `restricted` is shown the branch `main` and nothing else of the repository. */
async function useHiddenBranch() {
  const shop = await useShop();
  const { host, repo, commit } = shop;
  const shown = host.repo("restricted/shop");
  host.passwords.set("restricted", "restricted");
  repo.git("push", "-q", shown.bare, "main");
  repo.git("checkout", "-q", "-b", "secret");
  repo.write("secret.txt", "one");
  const secret = repo.push();
  await shop.take(login.password, { branch: "secret" });
  return { ...shop, shown, secret, main: commit };
}

test("a rotated token clones nothing again: only new commits are sent", async () => {
  const { host, repo, take, mirrors, mirror, seen } = await useShop();
  repo.write("large.bin", randomBytes(300_000).toString("base64"));
  repo.push();
  await take(login.password);
  expect(host.sent).toBeGreaterThan(300_000);

  for (const token of ["second", "third"]) {
    host.passwords.clear();
    host.passwords.set(token, "");
    repo.write("a.txt", token);
    const commit = repo.push();
    Object.assign(host, { sent: 0 });
    expect(await take(token)).toMatchObject({ commit });
    expect(host.sent).toBeLessThan(10_000);
  }
  expect(mirrors()).toHaveLength(1);
  expect(seen).toEqual({ lsRemotes: 3, fetches: 3 });
  expect(readdirSync(join(mirror(), "logins"))).toHaveLength(3);
  expect(git(mirror(), "for-each-ref")).not.toMatch(/second|third|canary/);
});

test("each login gets a normal clone with the branches that it was shown", async () => {
  const { repo, take, host } = await useShop();
  const before = await take(login.password);
  repo.git("push", "-q", "origin", "main:other");
  host.passwords.set("second", "");

  expect(before.refs).toEqual(["refs/heads/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
  const { refs } = await take("second", { branch: "other" });
  expect(refs).toEqual([...before.refs, "refs/remotes/origin/other"]);
});

test("a wrong or revoked login is refused, although another login has fetched the commits", async () => {
  const { host, repo, commit, as, take, sources } = await useShop();
  repo.write("a.txt", "two");
  const next = repo.push();
  await take(login.password);
  const unauthorized = { problem: "unauthorized" };

  for (const ref of [{}, { commit: next }, { commit }]) {
    await expect(take("wrong", ref)).rejects.toMatchObject(unauthorized);
  }
  await expect(sources.heads(as("wrong"), since("1"))).rejects.toMatchObject(unauthorized);
  await expect(sources.changes(as("wrong"), commit, next, signal)).rejects.toMatchObject(unauthorized);
  const merge = { ...as("wrong"), base: commit, head: next };
  await expect(sources.merge(merge, signal)).rejects.toMatchObject(unauthorized);
  expect(await take(login.password, { commit })).toMatchObject({ commit }); // the mirror is still there
  host.passwords.clear();
  await expect(take(login.password)).rejects.toMatchObject(unauthorized);
});

test("a login gets no commit of a branch that it is not shown, neither by name nor by hash", async () => {
  const { secret, main, take, seen } = await useHiddenBranch();
  const missing = { problem: "ref-not-found" };

  await expect(take("restricted", { commit: secret })).rejects.toMatchObject(missing);
  await expect(take("restricted", { branch: "secret" })).rejects.toMatchObject(missing);
  const { commit, refs } = await take("restricted");
  expect(commit).toBe(main);
  expect(refs).not.toContain("refs/remotes/origin/secret");
  await expect(take("restricted", { commit: secret })).rejects.toMatchObject(missing);

  // It is not compared either: for this login it is an unknown commit.
  seen.lsRemotes = 0;
  expect(await take("restricted", { branch: "main" }, undefined, secret)).toMatchObject({ commit: main });
  expect(seen.lsRemotes).toBe(2);
});

test("merges and changed paths contain no commit that the login is not shown", async () => {
  const { secret, main, as, sources } = await useHiddenBranch();
  const missing = { problem: "ref-not-found" };

  for (const [base, head] of [
    [main, secret],
    [secret, main],
  ] as const) {
    await expect(sources.changes(as("restricted"), base, head, signal)).rejects.toMatchObject(missing);
    await expect(sources.merge({ ...as("restricted"), base, head }, signal)).rejects.toMatchObject(missing);
    const paths = head === secret ? ["secret.txt"] : [];
    const merge = await sources.merge({ ...as(login.password), base, head }, signal);
    expect(merge).toMatchObject({ changed: { paths } });
    if (merge.kind === "merged") await merge.release();
  }
});

test("after a restart, each login still gets what it was shown, without a fetch, and nothing else", async () => {
  const { secret, main, take, cacheDir } = await useHiddenBranch();
  await take("restricted");
  const restarted = useSources({ cacheDir });

  expect(await take("restricted", { commit: main }, restarted)).toMatchObject({ commit: main });
  expect(await take(login.password, { commit: secret }, restarted)).toMatchObject({ commit: secret });
  expect(restarted.seen.fetches).toBe(0);
  const refused = take("restricted", { commit: secret }, restarted);
  await expect(refused).rejects.toMatchObject({ problem: "ref-not-found" });
});

test("a login gets a commit as soon as the remote shows a branch with it", async () => {
  const { repo, shown, secret, take } = await useHiddenBranch();
  await take("restricted");
  repo.write("secret.txt", "two");
  repo.push();
  repo.git("push", "-q", shown.bare, "secret");

  expect(await take("restricted", { commit: secret })).toMatchObject({ commit: secret });
  expect((await take("restricted", { branch: "secret" })).refs).toContain("refs/remotes/origin/secret");
});

test("the deployed commit is not copied for a login that was not shown it", async () => {
  const { repo, shown, secret, main, as, take, sources } = await useHiddenBranch();
  repo.git("checkout", "-q", "main");
  repo.write("a.txt", "three");
  const head = repo.push();
  repo.git("push", "-q", shown.bare, "main");
  await take(login.password);

  for (const [password, has] of [
    ["restricted", false],
    [login.password, true],
  ] as const) {
    const merge = await sources.merge({ ...as(password), base: main, head }, signal);
    if (merge.kind === "conflict") throw new Error("in conflict");
    const of = merge.stubbed("", signal, secret);
    if (has) expect(existsSync(join((await of).projectDir, "secret.txt"))).toBe(true);
    else await expect(of).rejects.toMatchObject({ problem: "ref-not-found" });
    await merge.release();
  }
});

test("a commit that no branch has is fetched by each login, and used if the host serves it", async () => {
  const { host, repo, shown, take, mirrors, work, cacheDir } = await useHiddenBranch();
  repo.git("checkout", "-q", "main");
  repo.write("large.bin", randomBytes(300_000).toString("base64"));
  const lost = repo.push();
  repo.git("reset", "-q", "--hard", "HEAD^");
  repo.push("instead");
  repo.git("push", "-q", "-f", shown.bare, "main");
  host.passwords.set("second", "");
  await take(login.password, { commit: lost });
  for (const name of ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"])
    repo.git("-C", repo.bare, "config", name, "true");

  Object.assign(host, { sent: 0 });
  expect(await take("second", { commit: lost })).toMatchObject({ commit: lost });
  expect(host.sent).toBeLessThan(10_000);
  await expect(take("restricted", { commit: lost })).rejects.toMatchObject({ problem: "ref-not-found" });

  host.passwords.clear();
  const restarted = useSources({ cacheDir });
  expect(await take("second", { commit: lost }, restarted)).toMatchObject({ commit: lost });
  await expect(take("restricted", { commit: lost }, restarted)).rejects.toMatchObject({ problem: "unauthorized" });
  expect(mirrors()).toHaveLength(1);
  expect(work()).toEqual([]);
});

test("logins that fetch at once share the mirror, and a wrong one among them breaks nothing", async () => {
  const { host, commit, take, mirror, mirrors } = await useShop();
  const tokens = ["a", "b", "c", "d"];
  for (const token of tokens) host.passwords.set(token, "");

  const taken = await Promise.allSettled(["wrong", ...tokens, "wrong", ...tokens].map((token) => take(token)));

  expect(taken.filter(({ status }) => status === "rejected")).toHaveLength(2);
  expect(readdirSync(join(mirror(), "logins"))).toHaveLength(tokens.length);
  expect(taken.flatMap((one) => (one.status === "fulfilled" ? [one.value.commit] : []))).toEqual(Array(8).fill(commit));
  expect(mirrors()).toHaveLength(1);
});

test("what a mirror keeps for a login is removed when nobody uses the login, and the mirror with the last of them", async () => {
  const { host, repo, commit, take, sources, mirror, mirrors, seen } = await useShop();
  host.passwords.set("old", "");
  await take("old");
  const markers = () => readdirSync(join(mirror(), "logins")).map((name) => join(mirror(), "logins", name));
  const [old = ""] = markers();
  await take(login.password);
  const count = () => Number(git(mirror(), "for-each-ref", "--format=%(refname)").split("\n").length);
  const refs = count();
  expect(markers()).toHaveLength(2);

  utimesSync(old, 0, 0);
  await sources.sweepStale();
  expect(markers()).toHaveLength(1);
  expect(count()).toBe(refs / 2);
  expect(readFileSync(join(mirror(), "packed-refs"), "utf8") + readdirSync(mirror()).join()).not.toContain("old");

  // The login that is left needs no fetch, the other one starts again.
  const fetches = seen.fetches;
  await take(login.password, { commit });
  expect(seen.fetches).toBe(fetches);
  await take("old", { commit });
  expect(seen.fetches).toBe(fetches + 1);
  repo.write("a.txt", "two");
  const next = repo.push();
  expect(await take("old")).toMatchObject({ commit: next });

  for (const path of markers()) utimesSync(path, 0, 0);
  await sources.sweepStale();
  expect(mirrors()).toEqual([]);
  expect(await take("old")).toMatchObject({ commit: next });
});

test("an error that looks like damage does not take the mirror from the other logins", async () => {
  const { host, commit, take, mirrors, seen } = await useShop();
  await take(login.password);
  host.passwords.set("second", "");
  host.fault = (_req, res, kind) => {
    if (kind === "info") return false;
    const line = "ERR upload-pack: bad object HEAD";
    res.writeHead(200, { "content-type": "application/x-git-upload-pack-result" });
    res.end(`${(line.length + 4).toString(16).padStart(4, "0")}${line}`);
    return true;
  };
  await expect(take("second", { commit })).rejects.toThrow("bad object");

  const fetches = seen.fetches;
  expect(await take(login.password, { commit })).toMatchObject({ commit });
  expect(seen.fetches).toBe(fetches);
  expect(mirrors()).toHaveLength(1);
});

test("a mirror's damage is repaired for all logins", async () => {
  const { host, commit, take, mirror, mirrors } = await useShop();
  host.passwords.set("second", "");
  await take(login.password);
  await take("second");
  const aside = useDirectory();
  execFileSync("mv", [join(mirror(), "objects"), aside]);

  expect(await take(login.password, { commit })).toMatchObject({ commit });
  expect(await take("second", { commit })).toMatchObject({ commit });
  expect(mirrors()).toHaveLength(1);
});
