import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Merge, Merged } from "../../../src/model.ts";
import { findEncrypted, stubEncrypted } from "../../../src/stub-decryption/stub-encrypted.ts";
import { ageMasterKey, blueKey, encryptedYaml } from "../../support/sops.ts";
import { type Repo, useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;

function merged(merge: Merge): Merged {
  if (merge.kind === "conflict") throw new Error(`in conflict: ${merge.paths.join(", ")}`);
  return merge;
}

/** Creates a branch `feature` and a `main` that has moved on since. */
function diverge(repo: Repo): { head: string; base: string } {
  repo.write("app/deployment.yaml", "replicas: 1\n");
  repo.write("README", "shop\n");
  repo.push("first");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write("app/deployment.yaml", "replicas: 2\n");
  repo.write("app/ü b.yaml", "new\n");
  const head = repo.push("on the branch");
  repo.git("checkout", "-q", "main");
  repo.write("README", "the shop\n");
  return { head, base: repo.push("on main") };
}

test("a merge has the changes of both sides, and lists the files that differ from its base", async () => {
  const repo = (await useGitHost()).repo("shop");
  const commits = diverge(repo);
  const { sources, work } = useSources();

  const merge = merged(await sources.merge({ url: repo.url, credentials: [], ...commits }, signal));

  expect(merge.changed).toEqual({ complete: true, paths: ["app/deployment.yaml", "app/ü b.yaml"] });
  const { projectDir: project } = await merge.project("app", signal);
  expect(readFileSync(join(project, "deployment.yaml"), "utf8")).toBe("replicas: 2\n");
  expect(readFileSync(join(project, "../README"), "utf8")).toBe("the shop\n");
  expect(repo.git("-C", join(project, ".."), "remote", "get-url", "origin")).toBe(repo.url);
  expect(repo.git("-C", join(project, ".."), "status", "--porcelain")).toBe("");
  await merge.release();
  expect(work()).toEqual([]);
});

test("merging twice gives the same commit, and nothing is written to the remote", async () => {
  const repo = (await useGitHost()).repo("shop");
  const source = { url: repo.url, credentials: [], ...diverge(repo) };
  const { sources, seen } = useSources();
  const refs = repo.git("-C", repo.bare, "for-each-ref");

  const [one, other] = [merged(await sources.merge(source, signal)), merged(await sources.merge(source, signal))];

  const commitAt = async ({ project }: Merged) =>
    repo.git("-C", (await project("", signal)).projectDir, "rev-parse", "HEAD");
  expect(await commitAt(one)).toBe(await commitAt(other));
  expect(repo.git("-C", repo.bare, "for-each-ref")).toBe(refs);
  expect(seen).toEqual({ lsRemotes: 0, fetches: 1 });
  await Promise.all([one.release(), other.release()]);
});

test("a branch that is ahead of its base merges to itself, and one that is behind changes nothing", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("a", "1");
  const first = repo.push();
  repo.write("a", "2");
  const second = repo.push();
  const { sources } = useSources();

  const ahead = merged(await sources.merge({ url: repo.url, credentials: [], base: first, head: second }, signal));
  const behind = merged(await sources.merge({ url: repo.url, credentials: [], base: second, head: first }, signal));

  expect(ahead.changed.paths).toEqual(["a"]);
  expect(behind.changed).toEqual({ complete: true, paths: [] });
  await Promise.all([ahead.release(), behind.release()]);
});

test("a moved file is listed with both paths", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("old/app.yaml", "a long enough text to be recognised as the same\n".repeat(10));
  const base = repo.push();
  repo.git("checkout", "-q", "-b", "feature");
  repo.git("mv", "old", "new");
  const head = repo.push();
  const { sources } = useSources();

  const merge = merged(await sources.merge({ url: repo.url, credentials: [], base, head }, signal));

  expect(merge.changed.paths).toEqual(["new/app.yaml", "old/app.yaml"]);
  await merge.release();
});

test("a conflict lists its files, and leaves nothing behind", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { head } = diverge(repo);
  repo.write("app/deployment.yaml", "replicas: 3\n");
  const base = repo.push();
  const { sources, work } = useSources();

  expect(await sources.merge({ url: repo.url, credentials: [], head, base }, signal)).toEqual({
    kind: "conflict",
    paths: ["app/deployment.yaml"],
  });
  expect(work()).toEqual([]);
});

test("commits that are unrelated or missing are reported as errors", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { base } = diverge(repo);
  repo.git("checkout", "-q", "--orphan", "elsewhere");
  const head = repo.push();
  const { sources, work } = useSources();
  const merge = (commit: string) => sources.merge({ url: repo.url, credentials: [], head: commit, base }, signal);

  await expect(merge(head)).rejects.toMatchObject({
    problem: "refused",
    message: expect.stringContaining("no common history") as string,
  });
  await expect(merge("0123456789".repeat(4))).rejects.toMatchObject({ problem: "ref-not-found" });
  expect(work()).toEqual([]);
});

test("project directories outside the merge are refused", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { base } = diverge(repo);
  repo.git("checkout", "-q", "feature");
  repo.link("app/out", "/etc");
  const head = repo.push();
  const { sources } = useSources();

  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head, base }, signal));

  await expect(merge.project("app/out", signal)).rejects.toMatchObject({ problem: "refused" });
  await expect(merge.project("../..", signal)).rejects.toMatchObject({ problem: "refused" });
  await expect(merge.project("nowhere", signal)).rejects.toMatchObject({ problem: "path-not-found" });
  expect(existsSync((await merge.project("", signal)).projectDir)).toBe(true);
  await merge.release();
});

test("the files that differ between two commits are read from the mirror in both directions, and a missing commit is an error", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { head, base } = diverge(repo);
  const { sources, seen } = useSources();
  const repository = { url: repo.url, credentials: [] };
  const paths = ["README", "app/deployment.yaml", "app/ü b.yaml"];

  expect(await sources.changes(repository, base, head, signal)).toEqual({ complete: true, paths });
  expect(await sources.changes(repository, head, base, signal)).toEqual({ complete: true, paths });
  expect(await sources.changes(repository, head, head, signal)).toEqual({ complete: true, paths: [] });
  expect(seen).toEqual({ lsRemotes: 0, fetches: 1 });
  await expect(sources.changes(repository, "0".repeat(40), head, signal)).rejects.toThrow("there is no commit");
});

test("encrypted files are replaced by placeholders in the merge and in the deployed commit, for all callers", async () => {
  const repo = (await useGitHost()).repo("shop");
  const key = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) };
  repo.write("app/secret.yaml", encryptedYaml({ password: "first" }, key));
  const deployed = repo.push("first");
  repo.write("app/secret.yaml", encryptedYaml({ password: "second" }, key));
  const base = repo.push("second");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write("app/more.yaml", encryptedYaml({ password: "third" }, key));
  const head = repo.push("on the branch");
  const { sources, work } = useSources({ encrypted: { find: findEncrypted, stub: stubEncrypted } });
  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head, base }, signal));
  const secretOf = ({ projectDir }: { projectDir: string }) => readFileSync(join(projectDir, "secret.yaml"), "utf8");

  const [stubbed, again, before, ofBase] = await Promise.all([
    merge.stubbed("app", signal),
    merge.stubbed("app", signal),
    merge.stubbed("app", signal, deployed),
    merge.stubbed("app", signal, base),
  ]);
  expect(again).toEqual(stubbed);
  expect(stubbed.projectDir).toBe(join(stubbed.slot, "clone/app"));
  expect([...stubbed.encrypted.keys()].sort()).toEqual(["app/more.yaml", "app/secret.yaml"]);
  expect([...before.encrypted.keys()]).toEqual(["app/secret.yaml"]);
  expect(secretOf(stubbed)).toMatch(/^password: encrypted\w{11}\n$/);
  expect(secretOf(ofBase)).toBe(secretOf(stubbed));
  expect(secretOf(before)).not.toBe(secretOf(stubbed));
  expect(secretOf(await merge.project("app", signal))).toContain("ENC[");
  await expect(merge.stubbed("../..", signal)).rejects.toMatchObject({ problem: "refused" });
  await expect(merge.stubbed("gone", signal)).rejects.toMatchObject({ problem: "path-not-found" });

  await merge.release();
  expect(work()).toEqual([]);
});

test("another commit of a merge's repository has one clone for all callers, unless the repository does not have it", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("app/config.yaml", "first\n");
  const deployed = repo.push("first");
  repo.write("app/config.yaml", "second\n");
  const base = repo.push("second");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write("app/config.yaml", "third\n");
  repo.write("new/config.yaml", "new\n");
  const head = repo.push("on the branch");
  const { sources, work } = useSources();
  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head, base }, signal));
  const textOf = ({ projectDir }: { projectDir: string }) => readFileSync(join(projectDir, "config.yaml"), "utf8");

  const [ofMerge, ofBase, again, ofDeployed] = await Promise.all([
    merge.project("app", signal),
    merge.project("app", signal, base),
    merge.project("app", signal, base),
    merge.project("app", signal, deployed),
  ]);
  expect([ofMerge, ofBase, ofDeployed].map(textOf)).toEqual(["third\n", "second\n", "first\n"]);
  expect(again).toEqual(ofBase);
  await expect(merge.project("new", signal, base)).rejects.toMatchObject({ problem: "path-not-found" });
  for (const commit of ["0".repeat(40), "--upload-pack=x", "feature"]) {
    await expect(merge.project("app", signal, commit)).rejects.toMatchObject({ problem: "ref-not-found" });
  }

  await merge.release();
  expect(work()).toEqual([]);
});

test("a merge without encrypted files is not copied, and lists the hosts that its base fetches from", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("app/helm-chart.yaml", "helmChart:\n  repo: https://charts.example.com/stable\n  chartVersion: 1.0.0\n");
  repo.write("app/oci/helm-chart.yml", "helmChart: {repo: 'oci://registry.example.com:5000/charts/x'}\n");
  repo.write(
    "deployment.yaml",
    'deployments:\n- git: {url: "https://me@git.example.com/a.git"}\n# url: https://no.example.com\n',
  );
  repo.write("app/kustomization.yaml", "resources:\n  - https://raw.example.com/a.yaml\n  - web.yaml\n");
  repo.write("app/web.yaml", "url: https://elsewhere.example.com\n");
  const base = repo.push("first");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write("app/more/helm-chart.yaml", "helmChart: {repo: https://evil.example.com}\n");
  const head = repo.push("on the branch");
  const { sources } = useSources({ encrypted: { find: findEncrypted, stub: stubEncrypted } });
  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head, base }, signal));

  expect(await merge.stubbed("app", signal)).toMatchObject(await merge.project("app", signal));
  expect([...(await merge.baseHosts(signal))].sort()).toEqual([
    "charts.example.com",
    "git.example.com",
    "raw.example.com",
    "registry.example.com:5000",
  ]);
});

test("a commit on a queue's branch has no hosts but those of the tip of the branch that it merges into", async () => {
  const repo = (await useGitHost()).repo("shop");
  const chart = (host: string) => `helmChart: {repo: "https://${host}/stable", chartVersion: 1.0.0}\n`;
  repo.write("app/helm-chart.yaml", chart("charts.example.com"));
  const tip = repo.push("first");
  repo.git("checkout", "-q", "-b", `gh-readonly-queue/main/pr-7-${tip}`);
  repo.write("more/helm-chart.yaml", chart("internal.example.com"));
  const ahead = repo.push("the group ahead, as the next one claims");
  repo.git("checkout", "-q", "-b", `gh-readonly-queue/main/pr-7-${ahead}`);
  repo.write("app/helm-chart.yaml", chart("internal.example.com"));
  const head = repo.push("the group");
  const { sources } = useSources();
  const hosts = async (known: { tip?: string }) => {
    const source = { url: repo.url, credentials: [], head, base: ahead, isMerged: true, ...known };
    const merge = merged(await sources.merge(source, signal));
    expect(merge.changed.paths).toEqual(["app/helm-chart.yaml"]);
    return merge.baseHosts(signal);
  };
  expect(await hosts({ tip })).toEqual(["charts.example.com"]);
  expect(await hosts({})).toEqual([]);
});

test("files are checked out as they were committed, whatever the repository's attributes say", async () => {
  const repo = (await useGitHost()).repo("shop");
  const text = "$Id$\n".repeat(1_000);
  repo.write("app/text", text);
  const base = repo.push("first");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write(".gitattributes", "[attr]macro text ident working-tree-encoding=UTF-32LE\napp/** macro eol=crlf\n");
  repo.write("app/.gitattributes", "text text ident eol=crlf filter=lfs\n");
  const head = repo.pushUnconverted([".gitattributes", "app/.gitattributes", "app/text"]);
  const { sources } = useSources();
  const source = { kind: "git", url: repo.url, credentials: [], ref: { branch: "feature" }, path: "app" } as const;
  const checkout = await sources.checkout(source, undefined, signal);
  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head, base }, signal));
  for (const { projectDir } of [checkout, await merge.project("app", signal), await merge.project("app", signal, head)])
    expect(readFileSync(join(projectDir, "text"), "utf8")).toBe(text);
});

test("a line of the merge is read only from a regular file of exactly that path", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("app/a.yaml", "kind: A\r\nname: a\n");
  repo.write("app/large.yaml", `kind: A\n${"#\n".repeat(600_000)}`);
  const root = repo.git("rev-parse", "--show-toplevel").trim();
  symlinkSync("/etc/passwd", join(root, "app/outside.yaml"));
  symlinkSync("a.yaml", join(root, "app/link.yaml"));
  symlinkSync("app", join(root, "other"));
  const base = repo.push("first");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write("app/b.yaml", "kind: B\n");
  const { sources } = useSources();
  const merge = merged(await sources.merge({ url: repo.url, credentials: [], head: repo.push("b"), base }, signal));

  expect(await merge.line("app/a.yaml", 1, signal)).toBe("kind: A");
  expect(await merge.line("app/b.yaml", 1, signal)).toBe("kind: B");
  expect(await merge.line("app/a.yaml", 9, signal)).toBeUndefined();
  for (const path of ["outside", "link", "large", "none"])
    expect(await merge.line(`app/${path}.yaml`, 1, signal), path).toBeUndefined();
  for (const path of ["other/a.yaml", "app", "../../etc/passwd"])
    expect(await merge.line(path, 1, signal), path).toBeUndefined();
});

test("a commit with too many or too large files is not checked out, however few objects it consists of", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { head, base } = diverge(repo);
  repo.git("checkout", "-q", "-b", "bomb");
  // Ten directories inside ten directories, and so on: one blob and eight trees.
  const cwd = repo.git("rev-parse", "--show-toplevel").trim();
  const run = (input: string) => execFileSync("git", ["mktree"], { cwd, input, encoding: "utf8" }).trim();
  const blob = repo.git("rev-parse", "HEAD:README").trim();
  let tree = run(`100644 blob ${blob}\tfile\n`);
  for (let depth = 0; depth < 8; depth++) {
    tree = run(Array.from({ length: 10 }, (_, at) => `040000 tree ${tree}\td${at}\n`).join(""));
  }
  const bomb = repo.git("commit-tree", tree, "-p", base, "-m", "bomb").trim();
  repo.git("push", "-q", "origin", `${bomb}:refs/heads/bomb`);
  const { sources, work } = useSources({ limits: { proposed: { files: 1_000, bytes: 1_000_000 } } });
  const merge = (commit: string) => sources.merge({ url: repo.url, credentials: [], head: commit, base }, signal);

  await expect(merge(bomb)).rejects.toThrow("has more than 1000 files or 1 MiB");
  expect(work()).toEqual([]);
  await merged(await merge(head)).release();
});
