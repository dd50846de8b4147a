/** Deploys directories of users' own machines through the server. */
import { globSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { V1ConfigMap, V1Secret } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { repoKeyText, toRepoKey } from "../../src/model/repo-key.ts";
import { gitops } from "../support/gitops-client.ts";
import { anArchive, useOverrideClient } from "../support/override-client.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { readyOf, type TestCluster } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

interface Service {
  readonly port: number;
  readonly ca: string;
}

/** A server that offers the service on a free port, with its keys in the test's namespace. */
async function useService(world: TestWorld): Promise<Service> {
  const { cluster } = world;
  const towline = await useTowline(world, {
    TOWLINE_SOURCE_OVERRIDE_BIND_ADDRESS: "127.0.0.1:0",
    TOWLINE_CONTROLLER_NAMESPACE: cluster.namespace,
  });
  const offers = () => towline.lines.find(({ msg }) => msg === "source overrides can be offered");
  await expect.poll(offers, patience).toBeDefined();
  const published = await cluster.find<V1ConfigMap>("v1", "ConfigMap", "kluctl-source-override-ca");
  const secret = await cluster.find<V1Secret>("v1", "Secret", "kluctl-source-override-secret");
  expect(Object.keys(secret?.data ?? {}).toSorted()).toEqual(["ca.pem", "controllerSecret", "tls.crt", "tls.key"]);
  return { port: offers()?.["port"] as number, ca: published?.data?.["ca.pem"] ?? "" };
}

/** The name of a repository in overrides. */
function nameOf(url: string): string {
  const key = toRepoKey(url);
  return key === undefined ? "" : repoKeyText(key);
}

/** A project to be included, with one ConfigMap. */
function aPart(namespace: string, name: string, color: string): Record<string, string> {
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { color } };
  return {
    "deployment.yaml": JSON.stringify({ deployments: [{ path: name }] }),
    [`${name}/map.yml`]: JSON.stringify(map),
  };
}

async function colorsOf(cluster: TestCluster, ...names: string[]): Promise<(string | undefined)[]> {
  return (await Promise.all(names.map((name) => cluster.data(name)))).map((data) => data?.["color"]);
}

test("working copies are deployed instead of the repository's content, as long as their client is connected", async () => {
  const world = await useWorld();
  const service = await useService(world);
  await Promise.all([ofClients(world, service), ofTheCommandLine(world, service)]);
  expect(globSync("*/overrides/*", { cwd: world.dir })).toEqual([]);
});

/** With a client that replaces the command line, so that it can offer anything and disconnect at any time. */
async function ofClients({ cluster, repo }: TestWorld, { port, ca }: Service): Promise<void> {
  const { namespace } = cluster;
  const [shop, base, extra] = await Promise.all([repo("shop"), repo("org/base"), repo("org/extra")]);
  const art = "oci://registry.invalid/org/art";
  const project = (color: string, ...includes: object[]) => {
    const deployments = [{ path: "app" }, { git: { url: base.url } }, ...includes];
    const files = { ...aProject({ namespace, data: { color } }), "deployment.yaml": JSON.stringify({ deployments }) };
    return Object.fromEntries(Object.entries(files).map(([path, text]) => [`sub/${path}`, text ?? ""]));
  };
  const [commit] = await Promise.all([
    shop.push(project("red")),
    base.push(aPart(namespace, "base", "red")),
    extra.push(aPart(namespace, "extra", "red")),
  ]);
  const deployment = cluster.deployment("shop");
  await deployment.create(
    aSpec(shop.url, { source: { git: { url: shop.url, path: "sub", ref: { branch: "main" } } } }),
  );
  await deployment.reaches("Ready");

  const offers: Record<string, Buffer> = {
    [nameOf(shop.url)]: anArchive(project("blue", { git: { url: extra.url } }, { oci: { url: art } })),
    [nameOf(base.url)]: anArchive(aPart(namespace, "base", "blue")),
    [art]: anArchive(aPart(namespace, "art", "blue")),
  };
  const client = await useOverrideClient({ port, ca, answer: (name) => ({ artifact: offers[name] }) });
  await client.accepted;
  const { url } = client;
  const sourceOverrides = [
    { repoKey: nameOf(shop.url), url },
    { repoKey: nameOf(base.url).replace(/\/base$/, ""), url, isGroup: true },
    { repoKey: art, url },
    { repoKey: "git://git.invalid/nobody/wants", url },
  ];
  await deployment.patch({ spec: { sourceOverrides } });
  await deployment.settles();
  const deployed = await deployment.reaches("Ready");
  const colors = () => colorsOf(cluster, "settings", "base", "extra", "art");
  expect(await colors()).toEqual(["blue", "blue", "red", "blue"]); // the client has no "extra" after all
  expect(deployed.status).not.toHaveProperty("observedCommit");
  expect(deployed.status?.["lastDeployResult"]).toMatchObject({
    gitInfo: { commit: "", dirty: false },
    newObjects: 2,
    changedObjects: 2,
  });
  // A reconciliation that lost its lease on a busy machine asks again.
  expect(new Set(client.asked)).toEqual(new Set([...Object.keys(offers), nameOf(extra.url)]));

  client.leave();
  await deployment.patch({ spec: { args: { again: 1 } } });
  const failed = await deployment.settles();
  expect(readyOf(failed)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  const error = failed.status?.["lastPrepareError"];
  expect(error).toMatch(/^spec.sourceOverrides: could not get git:.*no longer connected/);
  expect(error).not.toContain(client.id);
  expect(await colors()).toEqual(["blue", "blue", "red", "blue"]);

  await deployment.patch({ spec: { sourceOverrides: null, args: null } });
  await deployment.settles(commit);
  await deployment.reaches("Ready");
  expect((await colors()).slice(0, 2)).toEqual(["red", "red"]);
}

/** With the real command line: the working copy that it runs in, with uncommitted changes, and another one. */
async function ofTheCommandLine(world: TestWorld, { port }: Service): Promise<void> {
  const { cluster, dir } = world;
  const { namespace } = cluster;
  const [repo, part] = await Promise.all([world.repo("byhand"), world.repo("part")]);
  const deployments = [{ path: "app" }, { git: { url: part.url } }];
  const files = { ...aProject({ namespace, name: "byhand" }), "deployment.yaml": JSON.stringify({ deployments }) };
  const [commit] = await Promise.all([repo.push(files), part.push(aPart(namespace, "part", "red"))]);
  const deployment = cluster.deployment("byhand");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const settings = join(repo.dir, "app/settings.yml");
  await writeFile(settings, (await readFile(settings, "utf8")).replace("red", "blue"));
  const mine = join(dir, "mine");
  for (const [path, text] of Object.entries(aPart(namespace, "part", "green"))) {
    await mkdir(dirname(join(mine, path)), { recursive: true });
    await writeFile(join(mine, path), text);
  }
  const where = ["--controller-namespace", namespace, "--local-source-override-port", String(port)];
  const override = `--local-git-override=${nameOf(part.url).replace("git://", "")}=${mine}`;
  const more = ["--name", "byhand", ...where, override];
  const colors = () => colorsOf(cluster, "byhand", "part");

  const diff = await gitops(world, ["diff", ...more], { cwd: repo.dir });
  expect(diff, diff.stderr).toMatchObject({ code: 0 });
  expect(diff.stdout).toMatch(/\| -red +\|\n.*\| \+blue +\|/);
  expect(diff.stdout).toMatch(/\| -red +\|\n.*\| \+green +\|/);
  expect(await colors()).toEqual(["red", "red"]);

  const deployed = await gitops(world, ["deploy", ...more], { cwd: repo.dir });
  expect(deployed, deployed.stderr).toMatchObject({ code: 0 });
  expect(deployed.stderr).toContain(`Controller requested override for ${nameOf(repo.url)}`);
  expect(deployed.stdout + deployed.stderr).not.toContain("can not override");
  expect(await colors()).toEqual(["blue", "green"]);
  // The check of git that follows changes nothing, because git has not changed.
  await deployment.settles(commit);
  expect(await colors()).toEqual(["blue", "green"]);
}
