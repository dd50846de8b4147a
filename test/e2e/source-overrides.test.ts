/** What people have on their own machines, deployed through the server. */
import { readdirSync } from "node:fs";
import type { V1ConfigMap, V1Secret } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { parseRepoKey, repoKeyText, toRepoKey } from "../../src/repo-key.ts";
import { anArchive, useOverrideClient } from "../support/override-client.ts";
import { aProject, aSpec } from "../support/project.ts";
import { type Towline, useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { patience, readyOf } from "../support/world-cluster.ts";

/** A server that offers the service on a free port, with its keys in the test's namespace. */
async function useService(world: TestWorld): Promise<Towline & { readonly port: number; readonly ca: string }> {
  const towline = await useTowline(world, {
    TOWLINE_SOURCE_OVERRIDE_BIND_ADDRESS: "127.0.0.1:0",
    TOWLINE_CONTROLLER_NAMESPACE: world.cluster.namespace,
  });
  const offers = () => towline.lines.find(({ msg }) => msg === "source overrides can be offered");
  await expect.poll(offers, patience).toBeDefined();
  const published = await world.cluster.find<V1ConfigMap>("v1", "ConfigMap", "kluctl-source-override-ca");
  return { ...towline, port: offers()?.["port"] as number, ca: published?.data?.["ca.pem"] ?? "" };
}

const nameOf = (url: string) => {
  const key = toRepoKey(url);
  return key === undefined ? "" : repoKeyText(key);
};

const map = (namespace: string, name: string, color: string) => ({
  [`${name}/map.yml`]: JSON.stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace },
    data: { color },
  }),
});

test("what a client offers is deployed instead of what git has, as long as the client is there", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const [shop, base, extra] = await Promise.all([world.repo("shop"), world.repo("org/base"), world.repo("org/extra")]);
  const project = (color: string) => ({
    ...Object.fromEntries(
      Object.entries(aProject({ namespace, data: { color } })).map(([path, text]) => [`sub/${path}`, text]),
    ),
    "sub/deployment.yaml": JSON.stringify({
      deployments: [
        { path: "app" },
        { git: { url: base.url } },
        { git: { url: extra.url } },
        { oci: { url: "oci://registry.invalid/org/art" } },
      ],
    }),
  });
  const part = (name: string, color: string) => ({
    "deployment.yaml": JSON.stringify({ deployments: [{ path: name }] }),
    ...map(namespace, name, color),
  });
  const [commit] = await Promise.all([
    shop.push({
      ...project("red"),
      "sub/deployment.yaml": JSON.stringify({ deployments: [{ path: "app" }, { git: { url: base.url } }] }),
    }),
    base.push(part("base", "red")),
    extra.push(part("extra", "red")),
  ]);
  const { port, ca } = await useService(world);
  const deployment = cluster.deployment("shop");
  const source = { git: { url: shop.url, path: "sub", ref: { branch: "main" } } };
  await deployment.create(aSpec(shop.url, { source }));
  await deployment.reaches("Ready");

  const offers: Record<string, Buffer> = {
    [nameOf(shop.url)]: anArchive(project("blue") as Record<string, string>),
    [nameOf(base.url)]: anArchive(part("base", "blue")),
    "oci://registry.invalid/org/art": anArchive(part("art", "blue")),
  };
  const client = await useOverrideClient({ port, ca, answer: (name) => ({ artifact: offers[name] }) });
  await client.accepted;
  const group = parseRepoKey(nameOf(base.url).replace(/\/base$/, ""));
  const overrides = [
    { repoKey: nameOf(shop.url), url: client.url },
    { repoKey: group && repoKeyText(group), url: client.url, isGroup: true },
    { repoKey: "oci://registry.invalid/org/art", url: client.url },
    { repoKey: "git://git.invalid/nobody/wants", url: client.url },
  ];
  await deployment.patch({ spec: { sourceOverrides: overrides } });
  await deployment.settles();
  const deployed = await deployment.reaches("Ready");
  const colors = async () => {
    const names = ["settings", "base", "extra", "art"];
    return (await Promise.all(names.map((name) => cluster.data(name)))).map((data) => data?.["color"]);
  };
  // The client has no "extra" after all.
  expect(await colors()).toEqual(["blue", "blue", "red", "blue"]);
  expect(deployed.status).not.toHaveProperty("observedCommit");
  expect(deployed.status?.["lastDeployResult"]).toMatchObject({
    gitInfo: { commit: "", dirty: false },
    errors: [],
    newObjects: 2,
    changedObjects: 2,
  });
  expect(new Set(client.asked)).toEqual(new Set([...Object.keys(offers), nameOf(extra.url)]));
  expect(client.asked.filter((name) => name === nameOf(shop.url))).toHaveLength(1);

  client.leave();
  await deployment.patch({ spec: { args: { again: 1 } } });
  const failed = await deployment.settles();
  expect(readyOf(failed)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(failed.status?.["lastPrepareError"]).toMatch(
    /^spec.sourceOverrides: nothing came for git:.*not connected any more/,
  );
  expect(failed.status?.["lastPrepareError"]).not.toContain(client.id);
  expect(await colors()).toEqual(["blue", "blue", "red", "blue"]);

  await deployment.patch({ spec: { sourceOverrides: null, args: null } });
  await deployment.settles(commit);
  await deployment.reaches("Ready");
  expect((await colors()).slice(0, 2)).toEqual(["red", "red"]);
  const secret = await cluster.find<V1Secret>("v1", "Secret", "kluctl-source-override-secret");
  expect(Object.keys(secret?.data ?? {}).toSorted()).toEqual(["ca.pem", "controllerSecret", "tls.crt", "tls.key"]);
  const left = readdirSync(world.dir, { recursive: true }).map(String);
  expect(left.filter((path) => /^[^/]+\/overrides\/./.test(path))).toEqual([]);
});
