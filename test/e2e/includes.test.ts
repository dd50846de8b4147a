/** Repositories that projects include: a push to one of them reaches exactly the deployments that include it. */
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { annotation } from "../../src/model.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

/** Neither the sweep nor an interval finds anything within the test. */
const rarely = { TOWLINE_SWEEP_INTERVAL: "24h" };
const daily = { interval: "24h", retryInterval: "24h" };

/** What others include: the ConfigMap `shared`. */
function aLibrary(namespace: string, color: string, directory = ""): FileChanges {
  const metadata = { name: "shared", namespace };
  return {
    [`${directory}deployment.yaml`]: stringify({ deployments: [{ path: "shared" }] }),
    [`${directory}shared/shared.yml`]: stringify({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { color } }),
  };
}

test("a push to an included repository deploys what includes it at once, and nothing else", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const library = await world.repo("library");
  const shared = (color: string) => aLibrary(namespace, color);
  await library.push(shared("red"));
  const repo = await world.repo("shop");
  const own = aProject({ namespace });
  const including = stringify({ deployments: [{ path: "app" }, { git: { url: library.url } }] });
  const commit = await repo.push({ ...own, "deployment.yaml": including });
  const aside = await world.repo("aside");
  await aside.push(aProject({ namespace, name: "aside" }));
  const towline = await useTowline(world, rarely);
  const [shop, other] = [cluster.deployment("shop"), cluster.deployment("other")];
  await Promise.all([shop.create(aSpec(repo.url, daily)), other.create(aSpec(aside.url, daily))]);
  const [before, untouched] = await Promise.all([shop.reaches("Ready"), other.reaches("Ready")]);
  expect(before.metadata?.annotations?.[annotation.includes]).toBe(library.url);
  expect(await cluster.data("shared")).toEqual({ color: "red" });

  const pushed = await library.push(shared("blue"));
  const answer = await sendPush(towline.webhooksUrl, { repo: library.url, after: pushed });
  expect(answer.status).toBe(202);
  expect(await answer.json()).toMatchObject({ matched: 1, deployments: [shop.key] });
  await expect.poll(() => cluster.data("shared"), patience).toEqual({ color: "blue" });
  expect((await shop.settles()).status).toMatchObject({ observedCommit: commit });
  expect((await other.get())?.metadata?.resourceVersion).toBe(untouched.metadata?.resourceVersion);

  // Another branch of it concerns nobody, and the answer says why.
  await library.push(shared("green"), { branch: "feature" });
  const ignored = await sendPush(towline.webhooksUrl, { repo: library.url, after: pushed, ref: "refs/heads/feature" });
  expect(await ignored.json()).toMatchObject({ matched: 0, ignored: [{ deployment: shop.key }] });

  // A library that cannot be rendered is reported, and the next push mends that.
  const broken = await library.push({ ...shared("{{ nobody.knows.it }}") });
  await sendPush(towline.webhooksUrl, { repo: library.url, after: broken });
  const failed = await shop.until("a failure", ({ status }) => status?.["lastPrepareError"] !== undefined);
  expect(failed.status?.["lastPrepareError"]).toContain("nobody");
  const mended = await library.push(shared("white"));
  await sendPush(towline.webhooksUrl, { repo: library.url, after: mended });
  await shop.reaches("Ready");
  expect(await cluster.data("shared")).toEqual({ color: "white" });

  // What is no longer included is forgotten.
  const without = await repo.push({ ...own, "README.md": "no library\n" });
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: without });
  const after = await shop.settles(without);
  expect(after.metadata?.annotations?.[annotation.includes]).toBeUndefined();
});

test("a push to files outside of its path that a project names deploys it at once", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("mono");
  const base = (color: string) => aLibrary(namespace, color, "base/");
  const own = Object.entries(aProject({ namespace })).map(([name, content]) => [`apps/shop/${name}`, content]);
  const including = stringify({ deployments: [{ path: "app" }, { include: "../../base" }] });
  await repo.push({ ...Object.fromEntries(own), "apps/shop/deployment.yaml": including, ...base("red") });
  const towline = await useTowline(world, rarely);
  const shop = cluster.deployment("shop");
  await shop.create(
    aSpec(repo.url, { ...daily, source: { git: { url: repo.url, ref: { branch: "main" }, path: "apps/shop" } } }),
  );
  const { metadata } = await shop.reaches("Ready");
  expect(metadata?.annotations?.[annotation.reads]).toBe("apps/shop/\nbase");

  const pushed = await repo.push(base("blue"));
  const paths = ["base/shared/shared.yml"];
  expect((await sendPush(towline.webhooksUrl, { repo: repo.url, after: pushed, paths })).status).toBe(202);
  await shop.settles(pushed);
  expect(await cluster.data("shared")).toEqual({ color: "blue" });

  const elsewhere = await repo.push({ "apps/other/README.md": "nothing\n" });
  const answer = await sendPush(towline.webhooksUrl, {
    repo: repo.url,
    after: elsewhere,
    paths: ["apps/other/README.md"],
  });
  expect(await answer.json()).toMatchObject({
    matched: 0,
    ignored: [{ deployment: shop.key, reason: "no changed path under apps/shop/, base" }],
  });
});
