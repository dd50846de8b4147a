import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { GitCredential } from "../../../src/model.ts";
import { since, login, useDirectory, useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;

test("hostile URLs, refs and paths execute nothing and are reported as errors", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push();
  const pwn = join(useDirectory(), "PWN");
  const { sources, work } = useSources();
  const attempt = async (url: string, branch?: string, path = ""): Promise<string> =>
    sources.checkout({ url, ref: { branch }, path, credentials: [] }, undefined, signal).then(
      () => "fine",
      (error: { problem?: string }) => error.problem ?? String(error),
    );

  const urls = [
    `--upload-pack=touch ${pwn}`,
    `ext::sh -c touch% ${pwn}`,
    `file://${repo.bare}`,
    repo.bare,
    "../shop.git",
    "git://127.0.0.1/shop",
    `ssh://-oProxyCommand=touch ${pwn}/x`,
    `ssh://-oProxyCommand=touch%20${pwn}@host/x`,
    `-oProxyCommand=touch${pwn}@host:x`,
    `http://127.0.0.1/a\nb`,
    "http://good.example\\@169.254.169.254/x",
    "http://169.254.169.254/latest/meta-data",
    "http://0xA9FEA9FE/latest",
    "http://[fe80:0:0:0:0:0:0:1]/x",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/x",
    "http://[64:ff9b::a9fe:a9fe]/x",
    "http://[2002:a9fe:a9fe::]/x",
    "http://[::169.254.169.254]/x",
    "http://168.63.129.16/x",
    "fd::17/foo",
    "",
  ];
  for (const url of urls) expect([url, await attempt(url)]).toEqual([url, "refused"]);

  const refs = [
    `--upload-pack=touch ${pwn}`,
    `a;$(touch ${pwn})`,
    "../../HEAD",
    "@/etc/passwd",
    "a\nb",
    "refs/heads/main",
    "",
  ];
  for (const ref of refs) expect([ref, await attempt(repo.url, ref)]).toEqual([ref, "ref-not-found"]);

  const paths = ["../..", "a/../../b", "/etc", ".git", ".GIT/hooks", "a\0b", "a\nb"];
  for (const path of paths) expect([path, await attempt(repo.url, "main", path)]).toEqual([path, "refused"]);
  expect(await attempt(repo.url, "main", `$(touch ${pwn})`)).toBe("path-not-found");

  expect(existsSync(pwn)).toBe(false);
  expect(work()).toEqual([]);
});

test("branches with strange but legal names are checked out like all others", async () => {
  const repo = (await useGitHost()).repo("shop");
  const commit = repo.push();
  const names = ["a;$(id)", "@org/team", "@/etc/passwd", "<img/src=x>", "--upload-pack=x"];
  for (const name of names) repo.git("push", "-q", "origin", `HEAD:refs/heads/${name}`);
  const { sources } = useSources();

  for (const branch of names) {
    const checkout = await sources.checkout(
      { url: repo.url, ref: { branch }, path: "", credentials: [] },
      undefined,
      signal,
    );
    expect(checkout.commit).toBe(commit);
    await checkout.release();
  }
});

test("a name that resolves to a metadata address is refused, and git connects to the address that was checked", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const answers = { "good.test": "127.0.0.1", "bad.test": "169.254.169.254" } as Record<string, string>;
  const { sources } = useSources({ lookup: async (name) => [{ address: answers[name] ?? "" }] });
  const named = (name: string): string => repo.url.replace("127.0.0.1", name);

  expect((await sources.heads({ url: named("good.test"), credentials: [] }, undefined)).commits.size).toBe(1);
  await expect(sources.heads({ url: named("bad.test"), credentials: [] }, undefined)).rejects.toMatchObject({
    problem: "refused",
  });
});

test("a redirect is not followed, except to the same URL with .git", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const { sources } = useSources();
  host.fault = (req, res) => {
    if (req.url?.includes(".git/") === true) return false;
    res.writeHead(301, { location: `${repo.url}${req.url?.replace(/^\/[^/]+/, "") ?? ""}` }).end();
    return true;
  };
  expect((await sources.heads({ url: repo.url.replace(/\.git$/, ""), credentials: [] }, undefined)).commits.size).toBe(
    1,
  );

  host.fault = (_req, res) => Boolean(res.writeHead(302, { location: "http://169.254.169.254/" }).end());
  await expect(sources.heads({ url: repo.url, credentials: [] }, undefined)).rejects.toMatchObject({
    problem: "refused",
    message: expect.stringContaining("redirects") as string,
  });
});

test("a repository's filters, hooks and submodules are not executed", async () => {
  const repo = (await useGitHost()).repo("shop");
  const pwn = join(useDirectory(), "PWN");
  repo.write(".gitattributes", "* filter=evil diff=evil merge=evil\n*.bin filter=lfs");
  repo.write(".lfsconfig", "[lfs]\n\turl = http://127.0.0.1:1/");
  repo.write(".gitmodules", `[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% ${pwn}\n\tupdate = none`);
  repo.write("hooks/post-checkout", `#!/bin/sh\ntouch ${pwn}`);
  repo.write("config", `[core]\n\tfsmonitor = touch ${pwn}`);
  repo.write("a.bin", "version https://git-lfs.github.com/spec/v1");
  const head = repo.push();
  repo.git("update-index", "--add", "--cacheinfo", `160000,${head},x`);
  repo.git("commit", "-q", "-m", "submodule");
  repo.git("push", "-q", "origin", "HEAD");
  const { sources } = useSources();

  const { root, release } = await sources.checkout(
    { url: repo.url, ref: {}, path: "", credentials: [] },
    undefined,
    signal,
  );

  expect(readFileSync(join(root, "a.bin"), "utf8")).toContain("git-lfs");
  expect(existsSync(join(root, ".git/hooks"))).toBe(false);
  expect(readdirSync(join(root, "x"))).toEqual([]);
  expect(existsSync(pwn)).toBe(false);
  await release();
});

test("a project directory behind a symbolic link must be inside the repository", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("real/deployment.yaml", "{}");
  repo.link("inside", "real");
  repo.link("outside", "/etc");
  repo.link("up", "../..");
  repo.push();
  const { sources, work } = useSources();
  const open = async (path: string): ReturnType<typeof sources.checkout> =>
    sources.checkout({ url: repo.url, ref: {}, path, credentials: [] }, undefined, signal);

  await (await open("inside")).release();
  for (const path of ["outside", "up"]) await expect(open(path)).rejects.toMatchObject({ problem: "refused" });
  expect(work()).toEqual([]);
});

const credential: GitCredential = { host: "", secretName: "git-login", ...login };

test("a login is used if the host requires it, and does not serve other deployments", async () => {
  const host = await useGitHost({ secured: true });
  const repo = host.repo("shop");
  const commit = repo.push();
  const { sources, mirrors } = useSources();
  const hostName = new URL(host.url).host;
  const open = async (credentials: readonly GitCredential[], url = repo.url): ReturnType<typeof sources.checkout> =>
    sources.checkout({ url, ref: { commit }, path: "", credentials }, since("1"), signal);

  await (await open([{ ...credential, host: hostName }])).release();
  expect(mirrors()).toHaveLength(1);

  await expect(open([])).rejects.toMatchObject({
    problem: "unauthorized",
    message: `cannot read ${hostName}/shop: authentication failed (no login: no entry of spec.credentials.git matches)`,
  });
  await expect(open([{ ...credential, host: hostName, password: "wrong" }])).rejects.toMatchObject({
    problem: "unauthorized",
    message: `cannot read ${hostName}/shop: authentication failed (secret git-login, user "deploy")`,
  });
  await expect(open([{ ...credential, host: "other.example" }])).rejects.toMatchObject({ problem: "unauthorized" });
  await expect(sources.heads({ url: repo.url, credentials: [] }, since("1"))).rejects.toMatchObject({
    problem: "unauthorized",
  });
  expect(mirrors()).toHaveLength(1);

  const withLogin = repo.url.replace("://", `://${login.username}:${login.password}@`);
  const { root, release } = await open([], withLogin);
  expect(readFileSync(join(root, ".git/config"), "utf8")).not.toContain(login.password);
  await release();
});

test("arguments, files and messages never contain the secret", async () => {
  const host = await useGitHost({ secured: true });
  const repo = host.repo("shop");
  repo.push();
  const encoded = Buffer.from(`${login.username}:${login.password}`).toString("base64");
  const { sources, cacheDir } = useSources();
  const url = repo.url.replace("://", `://${login.username}:${login.password}@`);
  const credentials = [{ ...credential, host: new URL(host.url).host }];
  const seen: string[] = [];
  host.fault = () => {
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
      seen.push(readOr(`/proc/${pid}/cmdline`));
    return false;
  };

  for (const source of [
    { url, credentials: [] },
    { url: repo.url, credentials },
  ]) {
    const checkout = await sources.checkout({ ...source, ref: {}, path: "" }, undefined, signal);
    for (const text of readAll(cacheDir)) {
      expect(text).not.toContain(login.password);
      expect(text).not.toContain(encoded);
    }
    await checkout.release();
  }
  expect(seen.some((cmdline) => cmdline.includes("fetch"))).toBe(true);
  expect(seen.join("\n")).not.toContain(login.password);
  expect(seen.join("\n")).not.toContain(encoded);

  host.fault = (_req, res) => Boolean(res.writeHead(403, "no entry for canary-5f0e").end(login.password));
  for (const bad of [url, `${url}\\x`, url.replace("http:", "gopher:"), url.replace(/:\d+\//, ":1/")]) {
    const error: unknown = await sources.heads({ url: bad, credentials: [] }, undefined).catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "SourceError" });
    expect((error as Error).message).not.toContain(login.password);
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain(login.password);
  }
});

function readAll(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1"));
}

function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

test("a remote that sends too many refs is given up", async () => {
  const line = (i: number): string => `${"a".repeat(40)}\trefs/heads/${String(i).padStart(950, "x")}\n`;
  const refs = Array.from({ length: 1_000 }, (_, i) => line(i)).join("");
  const server = createServer((_req, res) => {
    res.setHeader("content-type", "text/plain");
    for (let i = 0; i < 70; i++) res.write(refs);
    res.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { sources } = useSources();

  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/shop`;
  await expect(sources.heads({ url, credentials: [] }, undefined)).rejects.toMatchObject({
    problem: "refused",
    message: expect.stringContaining("it has too many refs") as string,
  });
});
