/** Logins for repositories that a project includes, with the real kluctl and hosts that use the real protocols. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import type { Environment } from "../../../src/kluctl/environment.ts";
import type { GitCredential } from "../../../src/model.ts";
import { collectLogs, createProject, gitLogins, newKluctl, newRun, noDiffOptions } from "../../support/fake-kluctl.ts";
import { login as password, useGitHost } from "../../support/source.ts";
import { aStrangersKey, useSshHost } from "../../support/ssh-host.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";

/** Unpacking Python takes seconds, so it is done once for all tests of this file. */
let cacheDir: string;
beforeAll(async () => {
  cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  return () => rm(cacheDir, { recursive: true, force: true });
});

async function useDiff(env: Environment = {}) {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const { log, lines } = collectLogs();
  const environment = { PATH: process.env["PATH"], ...env };
  const kluctl = newKluctl(dir, { binary, log, kubeconfigFor: () => kubeconfig, cacheDir, env: environment });
  onTestFinished(() => kluctl.stop());
  const diff = (projectDir: string, credentials: GitCredential[]) =>
    kluctl.diff(
      newRun({ projectDir, credentials: gitLogins(...credentials) }),
      noDiffOptions,
      new AbortController().signal,
    );
  const configMap = (name: string) =>
    `{apiVersion: v1, kind: ConfigMap, metadata: {name: ${name}, namespace: ${cluster.namespace}}}\n`;
  return { diff, dir, lines, configMap };
}

async function useIncludeOverSsh(env?: Environment) {
  const { diff, dir, configMap, lines } = await useDiff(env);
  const library = (await useGitHost()).repo("library");
  library.write("deployment.yaml", "deployments: [{path: app}]");
  library.write("app/one.yaml", configMap("one"));
  library.push();
  const host = await useSshHost(dirname(library.bare));
  const projectDir = await createProject(join(dir, "project"), {
    "deployment.yaml": `deployments: [{git: {url: "ssh://git@127.0.0.1:${host.port}/library.git"}}]`,
  });
  const login = (over: Partial<GitCredential> = {}): GitCredential => {
    const { identity, knownHosts } = host;
    return { host: `127.0.0.1:${host.port}`, secretName: "login", username: "*", identity, knownHosts, ...over };
  };
  return { host, dir, login, lines, diff: (...credentials: GitCredential[]) => diff(projectDir, credentials) };
}

test("a repository that the project includes is fetched over SSH with the key of the run", async () => {
  const { diff, login } = await useIncludeOverSsh();

  const result = await diff(login());

  expect(result).toMatchObject({ errors: [], objects: [{ ref: { name: "one" }, new: true }] });
});

test("the path and the order of logins decide which key is tried", async () => {
  const { diff, login } = await useIncludeOverSsh();
  const stranger = login({ identity: aStrangersKey() });

  expect((await diff({ ...stranger, path: "other/*" }, login({ path: "/Library" }), stranger)).errors).toEqual([]);
  await expect(diff(stranger, login())).rejects.toThrow(/ssh: handshake failed: ssh: unable to authenticate/);
});

test("no connection is made to a host with a different or unknown host key", async () => {
  const { diff, host, login } = await useIncludeOverSsh();
  const other = await useSshHost("/nonexistent");
  const strangers = other.knownHosts.replace(`:${other.port}`, `:${host.port}`);

  for (const knownHosts of [undefined, "", strangers]) {
    const error = await diff(login({ knownHosts })).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PrepareError);
    expect(String(error)).toContain("the host's key is not known: put it into known_hosts of the secret");
    expect(String(error)).not.toContain("PRIVATE KEY");
  }
});

test("a host that the server's known hosts list needs no known hosts in the deployment", async () => {
  const dir = await useTempDir();
  const knownHosts = join(dir, "known_hosts");
  const { diff, host, login } = await useIncludeOverSsh({ SSH_KNOWN_HOSTS: knownHosts });
  await writeFile(knownHosts, `${host.knownHosts}\n`);

  expect((await diff(login({ knownHosts: undefined }))).errors).toEqual([]);
});

test("a project that includes nothing accepts an SSH login that is not needed", async () => {
  const { diff, dir, configMap } = await useDiff();
  const projectDir = await createProject(join(dir, "project"), {
    "deployment.yaml": "deployments: [{path: app}]",
    "app/one.yaml": configMap("one"),
  });
  const login = { host: "git.example.com", secretName: "login", username: "git", identity: aStrangersKey() };

  expect(await diff(projectDir, [login])).toMatchObject({ errors: [], objects: [{ ref: { name: "one" } }] });
});

test("the login of a source is sent to other ports of its host if they ask for it, and to no other host", async () => {
  const { diff, dir, configMap } = await useDiff();
  const library = async (name: string) => {
    const host = await useGitHost({ secured: true });
    const repo = host.repo(name);
    repo.write("deployment.yaml", "deployments: [{path: app}]");
    repo.write(`app/${name}.yaml`, configMap(name));
    repo.push();
    const offered = new Set<string | undefined>();
    host.fault = (req) => {
      offered.add(req.headers.authorization);
      return false;
    };
    return { url: repo.url, offered };
  };
  const [one, two, foreign] = await Promise.all([library("one"), library("two"), library("foreign")]);
  const project = (...urls: string[]) => ({
    "deployment.yaml": `deployments: [${urls.map((url) => `{git: {url: "${url}"}}`).join(", ")}]`,
  });
  const logins = [{ host: "127.0.0.1:1", namedHost: "127.0.0.1", secretName: "login", ...password }];

  const own = await createProject(join(dir, "own"), project(one.url, two.url));
  const { errors, objects } = await diff(own, logins);
  expect(errors).toEqual([]);
  expect(objects.map(({ ref }) => ref.name).toSorted()).toEqual(["one", "two"]);

  const elsewhere = await createProject(join(dir, "elsewhere"), project(foreign.url.replace("127.0.0.1", "localhost")));
  await expect(diff(elsewhere, logins)).rejects.toThrow("authentication required");
  expect(foreign.offered).toEqual(new Set([undefined]));
});
