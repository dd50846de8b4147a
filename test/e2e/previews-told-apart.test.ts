/** A drifted cluster, a commit that is not deployed, and a pull request's own change: in one comment, and told apart. */
import { expect, test } from "vitest";
import type { ShownPreviewObjects, ShownReport } from "../../src/views/show-report.ts";
import { pageToken } from "../support/page.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { deployShop, usePullRequests } from "../support/pull-requests.ts";
import { useWorld } from "../support/world.ts";

/** Nobody has to reach this address: the test takes the path from it. */
const pageVariables = {
  TOWLINE_PAGE_HOST: "127.0.0.1",
  TOWLINE_PAGE_PORT: "0",
  TOWLINE_PAGE_TOKEN: pageToken,
  TOWLINE_PAGE_PUBLIC_URL: "https://towline.example",
};
const title = "not deployed yet: ";
const drift = "Existing drift, not caused by this pull request: ";

/** The comment's parts: the pull request's own changes, those on the base branch, and the drift. */
function partsOf(body: string) {
  const [own = "", rest = ""] = body.split(title);
  const [undeployed = "", drifted = ""] = rest.split(drift);
  return { own, undeployed, drifted };
}

test("drift and a commit that is not deployed are shown, but not as the pull request's", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world, pageVariables);
  const metadata = (name: string) => ({ name, namespace });
  const extra = { apiVersion: "v1", kind: "ConfigMap", metadata: metadata("extra"), data: { extra: "1" } };
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: metadata("login"),
    stringData: { password: "canary-1" },
  };
  const project = (data: Record<string, string>, password = "canary-1") =>
    aProject({
      namespace,
      data,
      objects: { "extra.yml": extra, "login.yml": { ...secret, stringData: { password } } },
    });
  const deployed = { color: "red", size: "small", shape: "round" };
  await pulls.repo.push(project(deployed));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.reaches("Ready");

  await deployment.patch({ spec: { suspend: true } });
  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: metadata("settings") };
  await cluster.patch(Object.assign({}, settings, { data: { color: "painted-by-hand" } }));
  await cluster.patch(Object.assign({}, extra, { data: { extra: "edited-by-hand" } }));
  await pulls.repo.push(project({ ...deployed, size: "large" }, "canary-2"));

  const pull = await pulls.open(project({ ...deployed, size: "large", shape: "square" }, "canary-2"));
  const body = await pull.comment("would change 1 suspended deployment: 1 object changed");
  const { own, undeployed, drifted } = partsOf(body);
  expect(own).toMatch(/data\.shape:\n- +round\n\+ +square/);
  expect(own).not.toMatch(/color|size|extra|login/);
  expect(undeployed).toMatch(/^2 objects in 1 deployment/);
  expect(undeployed).toMatch(/data\.size:\n- +small\n\+ +large/);
  expect(undeployed).toMatch(/Secret.*login.*`password` changed/);
  expect(undeployed).not.toMatch(/color|shape|extra:/);
  expect(drifted).toMatch(/^2 objects in 1 deployment/);
  expect(drifted).toMatch(/data\.color:\n- +painted-by-hand\n\+ +red/);
  expect(drifted).toMatch(/data\.extra:\n- +edited-by-hand\n\+ +["']?1/);
  expect(drifted).not.toMatch(/size|shape|login/);
  expect(body).not.toContain("canary");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: "success: would change 1 suspended deployment: 1 object changed" });

  // The same behind the link, without a login: nothing but the link leads there.
  const [, place = "", link = ""] =
    /<a href="https:\/\/towline\.example\/#\/(.+)\?link=(.+)">full diff</.exec(body) ?? [];
  const page = (signature: string) =>
    fetch(`${pulls.towline.pageUrl}/api/${place}`, { headers: { "X-Towline-Link": signature } });
  const text = await (await page(link)).text();
  const [shown] = (JSON.parse(text) as ShownReport).previews;
  const names = (changes?: ShownPreviewObjects) =>
    changes?.objects.map(({ object }) => object.split("/").at(-1)).sort();
  expect(names(shown?.changes)).toEqual(["settings"]);
  expect(shown?.changes.objects[0]?.changes).toEqual([{ path: "data.shape", diff: "-  round\n+  square" }]);
  expect(names(shown?.uncounted.undeployed)).toEqual(["login", "settings"]);
  expect(names(shown?.uncounted.drifted)).toEqual(["extra", "settings"]);
  expect(text).not.toContain("canary");
  expect((await page(`${link.slice(0, -1)}${link.endsWith("A") ? "E" : "A"}`)).status).toBe(401);

  // A field of the drifted object is the pull request's as soon as it sets the field itself.
  await pull.push(project({ ...deployed, color: "blue", size: "large", shape: "square" }, "canary-2"));
  const next = partsOf(await pull.comment("blue"));
  expect(next.own).toMatch(/data\.color:\n- +painted-by-hand\n\+ +blue/);
  expect(next.drifted).toMatch(/^1 object in 1 deployment/);
  expect(next.drifted).not.toContain("color");
});

test("a pull request that changes nothing itself says so, however much a deploy of the base would change", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  const deployment = await deployShop(world, pulls);
  await deployment.patch({ spec: { suspend: true } });
  await pulls.repo.push(aProject({ namespace, data: { color: "blue" } }));

  const pull = await pulls.open({ "README.md": "Documentation.\n" });
  const body = await pull.comment("merging changes nothing in 1 deployment");
  expect(partsOf(body).undeployed).toMatch(/data\.color:\n- +red\n\+ +blue/);

  // The live value, which only a deploy of the base would change.
  await pull.push(aProject({ namespace, data: { color: "red" } }));
  const kept = await pull.comment("Kept as in the cluster, although <code>main</code> changes it: 1 object");
  expect(kept).toContain("merging changes nothing in 1 deployment");
  expect(kept).not.toContain("blue");
});

test("a preview follows the cluster: drift that appears after it, and a new spec", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world);
  const deployment = await deployShop(world, pulls, aProject({ namespace, data: { color: "red", size: "small" } }));
  const pull = await pulls.open(aProject({ namespace, data: { color: "blue", size: "small" } }));
  const first = await pull.comment("merging changes 1 deployment: 1 object changed");
  expect(first).not.toContain(drift);
  // Just deployed, so that the base need not be compared.
  expect(pulls.towline.lines.filter(({ msg }) => msg === "preview compared")).toHaveLength(1);

  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace } };
  await cluster.patch(Object.assign({}, settings, { data: { size: "by-hand" } }));
  const [own = "", drifted = ""] = (await pull.comment(drift)).split(drift);
  expect(own).toMatch(/data\.color:\n- +red\n\+ +blue/);
  expect(own).not.toContain("by-hand");
  expect(drifted).toMatch(/data\.size:\n- +by-hand\n\+ +small/);

  await deployment.patch({ spec: { suspend: true } });
  await pull.comment("would change 1 suspended deployment: 1 object changed");
});
