/** Logins with keys and certificates, against hosts that use the real protocols. */
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createCertificateAuthority } from "../../../dev/parts/certificates.ts";
import type { GitCredential } from "../../../src/model.ts";
import { since, login, useDirectory, useGitHost, useSources } from "../../support/source.ts";
import { aStrangersKey, useSshHost } from "../../support/ssh-host.ts";

const signal = new AbortController().signal;

function aLogin(over: Partial<GitCredential>): GitCredential {
  return { host: "*", secretName: "shop/git-login", username: "*", ...over };
}

async function useRepositoryOverSsh(env: NodeJS.ProcessEnv = {}) {
  const repo = (await useGitHost()).repo("shop");
  repo.write("a.txt", "one");
  const commit = repo.push();
  const host = await useSshHost(dirname(repo.bare));
  const watched = useSources({ env: { PATH: process.env["PATH"], ...env } });
  const checkout = (login: Partial<GitCredential>, user = "git") =>
    watched.sources.checkout(
      {
        url: `ssh://${user}@127.0.0.1:${host.port}/shop.git`,
        ref: { branch: "main" },
        path: "",
        credentials: [aLogin(login)],
      },
      undefined,
      signal,
    );
  return { host, commit, checkout, ...watched };
}

test("a repository is read over SSH with the key and the known hosts of a secret", async () => {
  const { host, commit, checkout, work } = await useRepositoryOverSsh();

  const { commit: got, projectDir, release } = await checkout(host);

  expect(got).toBe(commit);
  expect(readFileSync(join(projectDir, "a.txt"), "utf8")).toBe("one");
  await release();
  expect(work()).toEqual([]); // no key is left behind
});

test("known hosts of the server apply to all deployments", async () => {
  const knownHosts = join(useDirectory(), "known_hosts");
  const { host, commit, checkout } = await useRepositoryOverSsh({ SSH_KNOWN_HOSTS: knownHosts });
  writeFileSync(knownHosts, host.knownHosts);

  expect(await checkout({ ...host, knownHosts: undefined })).toMatchObject({ commit });
});

test("a repository over http is read with the server's own login if no secret matches", async () => {
  const host = await useGitHost({ secured: true });
  const repo = host.repo("shop");
  repo.write("a.txt", "one");
  const commit = repo.push();
  const own = { KLUCTL_GIT_1_HOST: new URL(host.url).host, KLUCTL_GIT_1_USERNAME: login.username };
  const checkout = (env: NodeJS.ProcessEnv, ...credentials: GitCredential[]) =>
    useSources({ env: { PATH: process.env["PATH"], ...own, ...env } }).sources.checkout(
      { url: repo.url, ref: {}, path: "", credentials },
      undefined,
      signal,
    );

  const right = { KLUCTL_GIT_1_PASSWORD: login.password };
  expect(await checkout({ ...right, KLUCTL_GIT_1_PATH: "sh*" })).toMatchObject({ commit });
  expect(await checkout(right, aLogin({ host: "other.test", password: "x" }))).toMatchObject({ commit });
  await expect(checkout({ ...right, KLUCTL_GIT_1_PATH: "other" })).rejects.toThrow("no login: no entry");
  await expect(checkout({ KLUCTL_GIT_1_PASSWORD: "wrong-canary" })).rejects.toThrow(
    'authentication failed (the server\'s own login, user "deploy")',
  );
  await expect(checkout({ ...right, KLUCTL_GIT_1_CA_BUNDLE: "/nonexistent" })).rejects.toThrow(
    "the file that KLUCTL_GIT…CA_BUNDLE names cannot be read (ENOENT)",
  );
});

test("no connection is made to a host that the secret's known_hosts lacks", async () => {
  const { host, checkout } = await useRepositoryOverSsh();
  const other = await useSshHost("/nonexistent");
  const strangers = other.knownHosts.replace(`:${other.port}`, `:${host.port}`);

  const refusal = (knownHosts: string | undefined) =>
    checkout({ ...host, knownHosts }).catch((error: unknown) => error);
  expect(await refusal(undefined)).toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("put it into known_hosts of the secret") as string,
  });
  // It may not be that host at all: the error must not suggest adopting its key.
  expect(await refusal(strangers)).toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("the host's key differs from the one in known_hosts of the secret") as string,
  });
});

test("refs read by a login that knows the host's key are not shared with a login that does not", async () => {
  const { host, commit, sources } = await useRepositoryOverSsh();
  const url = `ssh://git@127.0.0.1:${host.port}/shop.git`;
  const heads = (over: Partial<GitCredential>) =>
    sources.heads({ url, credentials: [aLogin({ ...host, ...over })] }, since("a move"), signal);

  expect((await heads({})).commits.get("refs/heads/main")).toBe(commit);
  await expect(heads({ knownHosts: undefined })).rejects.toMatchObject({ problem: "unauthorized" });
  expect((await heads({ secretName: "shop/the-same-elsewhere" })).commits.get("refs/heads/main")).toBe(commit);
});

test("a rejected key and an invalid key have different errors, which name the secret", async () => {
  const { host, checkout, work } = await useRepositoryOverSsh();

  const refused = await checkout({ ...host, identity: aStrangersKey() }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ problem: "unauthorized" });
  expect(String(refused)).toContain("shop/git-login");
  const garbage = await checkout({ ...host, identity: "canary-no-key" }).catch((error: unknown) => error);
  expect(garbage).toMatchObject({ problem: "unauthorized" });
  expect(String(garbage)).not.toContain("canary");
  expect(work()).toEqual([]);
});

test("a host with a private CA is trusted only with the CA of the secret", async () => {
  const plain = await useGitHost({ secured: true });
  const repo = plain.repo("shop");
  const commit = repo.push();
  const authority = createCertificateAuthority("A company's own authority");
  const server = createServer(authority.issueServer("git", ["127.0.0.1"]), (req, res) => {
    const onward = request(plain.url + (req.url ?? ""), { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    req.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const port = (server.address() as AddressInfo).port;
  const { sources } = useSources();
  const heads = (ca: string | undefined) => {
    const login = aLogin({ host: `127.0.0.1:${port}`, username: "deploy", password: "canary-5f0e", ca });
    return sources.heads({ url: `https://127.0.0.1:${port}/shop.git`, credentials: [login] }, undefined);
  };

  expect((await heads(authority.cert)).commits.get("refs/heads/main")).toBe(commit);
  await expect(heads(undefined)).rejects.toMatchObject({ problem: "unreachable" });
  await expect(heads(createCertificateAuthority("Another").cert)).rejects.toMatchObject({ problem: "unreachable" });
});
