import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Freshness, GitRef } from "../../../src/model.ts";
import { since, useDirectory, useGitHost, useSources } from "../../support/source.ts";
import { patience } from "../../support/patience.ts";

const signal = new AbortController().signal;
const none = { credentials: [], path: "" };
const at = (
  url: string,
  ref: GitRef = {},
  path = "",
): Parameters<ReturnType<typeof useSources>["sources"]["checkout"]>[0] => ({
  url,
  ref,
  path,
  credentials: [],
});

test("an empty repository has no heads and nothing to check out", async () => {
  const repo = (await useGitHost()).repo("shop");
  const { sources, work } = useSources();

  expect((await sources.heads(repo, undefined)).commits.size).toBe(0);
  await expect(sources.checkout(at(repo.url), undefined, signal)).rejects.toMatchObject({
    problem: "empty",
    message: expect.stringMatching(/^cannot read 127\.0\.0\.1:\d+\/shop: the repository has no commits$/) as string,
  });
  expect(work()).toEqual([]);
});

test("errors name the missing repository, ref or directory", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.write("app/a.txt", "x");
  repo.push();
  const { sources, work } = useSources();
  const failing = async (url: string, ref: GitRef, path = ""): Promise<string> =>
    sources.checkout(at(url, ref, path), undefined, signal).then(
      () => "fine",
      (error: Error & { problem?: string }) => `${error.problem}: ${error.message.replace(/:\d+\//, "/")}`,
    );

  const zeros = "0".repeat(40);
  expect(await failing(`${host.url}/gone.git`, {})).toMatch(
    /^not-found: cannot read 127\.0\.0\.1\/gone: no such repository/,
  );
  expect(await failing(repo.url, { branch: "nope" })).toBe(
    "ref-not-found: cannot read 127.0.0.1/shop: there is no branch nope",
  );
  expect(await failing(repo.url, { tag: "v9" })).toBe("ref-not-found: cannot read 127.0.0.1/shop: there is no tag v9");
  expect(await failing(repo.url, { commit: zeros })).toBe(
    `ref-not-found: cannot read 127.0.0.1/shop: there is no commit ${zeros}`,
  );
  expect(await failing(repo.url, { commit: "abc123" })).toMatch(/^ref-not-found: .*"abc123" is not the full hash/);
  expect(await failing(repo.url, {}, "nope")).toBe(
    'path-not-found: cannot read 127.0.0.1/shop: there is no directory "nope"',
  );
  expect(await failing(repo.url, {}, "app/a.txt")).toMatch(/^path-not-found/);
  expect(await failing("http://127.0.0.1:1/shop", {})).toMatch(
    /^unreachable: cannot read 127\.0\.0\.1\/shop: .*Failed to connect/,
  );
  expect(work()).toEqual([]);
});

test("a failing server is unreachable, and works again once it has recovered", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const { sources } = useSources();
  for (const status of [500, 502, 503, 429]) {
    host.fault = (_req, res) => Boolean(res.writeHead(status).end("<html>"));
    await expect(sources.heads(repo, since("1"))).rejects.toMatchObject({ problem: "unreachable" });
  }
  host.fault = (_req, res) => Boolean(res.writeHead(200).end("<html>\nPlease log in.\n</html>"));
  await expect(sources.heads(repo, since("1"))).rejects.toMatchObject({ problem: "not-found" });
  host.fault = (req) => Boolean(req.socket.resetAndDestroy());
  await expect(sources.heads(repo, since("1"))).rejects.toMatchObject({ problem: "unreachable" });
  host.fault = undefined;
  expect((await sources.heads(repo, since("1"))).commits.size).toBe(1);
});

test("if a server fails during negotiation, everything is fetched, and the error does not ask for a login", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  for (let i = 0; i < 20; i++) repo.push(`Change ${i}`);
  const { sources } = useSources();
  const take = async (freshness: Freshness | undefined) => {
    const { commit, release } = await sources.checkout(at(repo.url), freshness, signal);
    await release();
    return commit;
  };
  await take(undefined);
  let broken = 0;
  // kluctl's own test git server fails like this after 16 commits: git then negotiates which of them the server has.
  host.fault = (_req, res, kind, body) => {
    if (kind !== "fetch" || !body.includes("have ") || body.includes("done")) return false;
    broken++;
    res.writeHead(200, { "content-type": "application/x-git-upload-pack-result" }).end("nonsense\n");
    return true;
  };

  for (const freshness of [since("a move"), undefined]) {
    const head = repo.push();
    expect(await take(freshness)).toBe(head);
  }
  expect(broken).toBe(2);

  host.fault = (_req, res, kind) =>
    kind === "info"
      ? Boolean(res.writeHead(200, { "content-type": "application/x-git-upload-pack-advertisement" }).end("nonsense"))
      : false;
  const error: unknown = await sources.heads(repo, undefined).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ problem: "unreachable" });
  expect((error as Error).message).toMatch(/git protocol error: .*(?:invalid server response|protocol error)/);
  expect((error as Error).message).not.toContain("login");
});

test("a fetch from a server that stops responding is given up, and its git process ended", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const { sources, work, mirrors } = useSources({ limits: { silenceMs: 1_000 } });
  host.fault = (_req, _res, kind) => kind === "fetch"; // never answered

  await expect(sources.checkout({ ...at(repo.url) }, undefined, signal)).rejects.toMatchObject({
    problem: "unreachable",
    message: expect.stringContaining("does not respond in time") as string,
  });

  expect(work()).toEqual([]);
  expect(mirrors()).toEqual([]);
  await vi.waitFor(() => expect(processesAbout(repo.url)).toEqual([]), patience);
});

test("a host that takes too long is reported clearly, and gets no further requests for a while", async () => {
  const [silent, other] = [await useGitHost(), await useGitHost()];
  const [repo, fine] = [silent.repo("shop"), other.repo("shop")];
  repo.push();
  fine.push();
  const { sources, seen } = useSources({ limits: { callMs: 3_000 } });
  silent.fault = () => true; // never answered

  await expect(sources.heads(repo, undefined)).rejects.toMatchObject({
    problem: "unreachable",
    message: expect.stringMatching(/: the server does not respond in time$/) as string,
  });
  silent.fault = undefined;
  await expect(sources.heads(repo, undefined)).rejects.toThrow("the server does not respond in time; retrying shortly");
  expect((await sources.heads(fine, undefined)).commits.size).toBe(1);
  expect(seen.lsRemotes).toBe(3);
});

test("an aborted fetch leaves nothing behind", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const { sources, work, mirrors, cacheDir } = useSources();
  const controller = new AbortController();
  host.fault = (_req, res, kind) => {
    if (kind !== "fetch") return false;
    // The beginning of a response, so that git has started to store it.
    res.writeHead(200, { "content-type": "application/x-git-upload-pack-result" });
    res.write("000dpackfile\n");
    res.write("0021\u0001PACK\u0000\u0000\u0000\u0002\u0000\u0000\u0010\u0000aaaaaaaaaaaaaaaa");
    controller.abort(new Error("shutting down"));
    return true;
  };

  await expect(sources.checkout(at(repo.url), undefined, controller.signal)).rejects.toThrow("shutting down");

  expect(work()).toEqual([]);
  expect(mirrors()).toEqual([]);
  await vi.waitFor(() => expect(processesAbout(repo.url)).toEqual([]), patience);
  host.fault = undefined;
  await (await sources.checkout(at(repo.url), undefined, signal)).release();

  repo.push();
  const again = new AbortController();
  host.fault = (_req, _res, kind) => {
    if (kind === "fetch") again.abort(new Error("again"));
    return kind === "fetch";
  };
  await expect(sources.checkout(at(repo.url), undefined, again.signal)).rejects.toThrow("again");
  const packs = readdirSync(join(cacheDir, "mirrors", mirrors()[0] ?? "", "objects/pack"));
  expect(packs.filter((name) => name.startsWith("tmp_"))).toEqual([]);
  host.fault = undefined;
  await (await sources.checkout(at(repo.url), undefined, signal)).release();
});

test("a caller that stops waiting for a shared answer does not cancel it for others", async () => {
  const host = await useGitHost();
  const repo = host.repo("shop");
  repo.push();
  const { sources, seen } = useSources();
  const asked = Promise.withResolvers<() => void>();
  host.fault = (_req, res, kind) => {
    if (kind === "info" && host.fault !== undefined) {
      host.fault = undefined;
      asked.resolve(() => void res.writeHead(503).end());
      return true;
    }
    return false;
  };
  const impatient = new AbortController();
  const first = sources.heads(repo, since("1"), impatient.signal);
  const second = sources.heads(repo, since("1"));
  const answer = await asked.promise;
  impatient.abort(new Error("too slow"));
  await expect(first).rejects.toThrow("too slow");
  answer();
  await expect(second).rejects.toMatchObject({ problem: "unreachable" });
  expect(seen.lsRemotes).toBe(1);
});

test("an unwritable cache directory is reported as a disk problem", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push();
  const file = join(useDirectory(), "file");
  writeFileSync(file, "");
  const { sources } = useSources({ cacheDir: join(file, "cache") });

  await expect(sources.heads(repo, undefined)).rejects.toMatchObject({ problem: "disk" });
  await expect(sources.checkout(at(repo.url), since("1"), signal)).rejects.toMatchObject({ problem: "disk" });
});

test("leftovers of a crashed process and unused mirrors are removed, the rest stays", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.push();
  const { sources, work, mirrors, cacheDir } = useSources();
  const checkout = await sources.checkout({ url: repo.url, ref: {}, ...none }, undefined, signal);
  const crashed = join(cacheDir, "work", "999999999-abc");
  const before = join(cacheDir, "work", `${process.pid}-before`); // the same process id, as in a restarted container
  for (const path of [crashed, before, join(cacheDir, "mirrors", "old")]) {
    mkdirSync(path);
    writeFileSync(join(path, "file"), "x");
    utimesSync(path, 0, 0);
  }

  await sources.sweepStale();

  expect(work()).toHaveLength(1);
  expect(existsSync(checkout.root)).toBe(true);
  expect(mirrors()).not.toContain("old");
  expect(mirrors()).toHaveLength(1);
  await checkout.release();
});

function processesAbout(url: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readOr(`/proc/${pid}/cmdline`))
    .filter((cmdline) => cmdline.includes(url));
}

function readOr(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

test.skipIf(!canMount())("a full disk fails the current job, and no other once there is room again", async () => {
  const repo = (await useGitHost()).repo("shop");
  repo.write("large.bin", randomBytes(3_000_000).toString("base64"));
  repo.push();
  const cacheDir = useDirectory();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=5m", "tmpfs", cacheDir]);
  onTestFinished(() => void execFileSync("umount", ["-l", cacheDir]));
  const { sources, work } = useSources({ cacheDir });

  await expect(sources.checkout(at(repo.url), undefined, signal)).rejects.toMatchObject({ problem: "disk" });
  expect(work()).toEqual([]);
  execFileSync("mount", ["-o", "remount,size=50m", cacheDir]);
  await (await sources.checkout(at(repo.url), undefined, signal)).release();
});

function canMount(): boolean {
  const directory = mkdtempSync(join(tmpdir(), "towline-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", directory], { stdio: "ignore" });
    execFileSync("umount", [directory]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

test("ssh accepts the options it is given, and no key is left behind", async () => {
  const { sources, work } = useSources({ cacheDir: join(useDirectory(), "with a 'space'") });
  const credential = {
    host: "*",
    secretName: "ssh",
    username: "git",
    identity: "no key",
    knownHosts: "h ssh-ed25519 AA",
  };

  for (const credentials of [[credential], []]) {
    await expect(sources.heads({ url: "ssh://git@127.0.0.1:1/shop", credentials }, undefined)).rejects.toMatchObject({
      problem: "unreachable",
      message: expect.stringContaining("Connection refused") as string,
    });
  }
  expect(work()).toEqual([]);
});
