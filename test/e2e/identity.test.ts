/** Which account deploys: only the permissions of its service account count, never those of the server. */
import { expect, test } from "vitest";
import { createAccount } from "../support/accounts.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { conditionOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const labels = { app: "web" };
const web = (namespace: string) => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace },
  spec: {
    replicas: 1,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "web", image: "registry.example.com/web:v1" }] } },
  },
});

test("a deployment with a service account can do what that account may, and other attempts are reported", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await createAccount(cluster, "limited");
  await createAccount(cluster, "blind", ["namespaces"]);
  const allowed = await world.repo("allowed");
  await allowed.push(aProject({ namespace, name: "{{ args.name }}" }));
  const tooMuch = await world.repo("too-much");
  await tooMuch.push(aProject({ namespace, name: "beside-web", objects: { "web.yml": web(namespace) } }));
  const foreign = await world.repo("foreign");
  await foreign.push(aProject({ namespace: "default", name: `from-${namespace}` }));
  await useTowline(world);

  const spec = (url: string, account: string, name = "x") =>
    aSpec(url, { serviceAccountName: account, args: { name } });
  const names = ["good", "blind", "greedy", "straying", "nobody", "blank"];
  const [good, blind, greedy, straying, nobody, blank] = names.map((name) => cluster.deployment(name));
  await good!.create({ ...spec(allowed.url, "limited", "good"), delete: true });
  await blind!.create({ ...spec(allowed.url, "blind", "blind"), delete: true });
  await greedy!.create(spec(tooMuch.url, "limited"));
  await straying!.create(spec(foreign.url, "limited"));
  await nobody!.create(spec(allowed.url, "there-is-none", "nobody"));
  await blank!.create(spec(allowed.url, " ", "blank"));

  await good!.reaches("Ready");
  expect(await cluster.data("good")).toEqual({ color: "red" });

  const refused = await greedy!.settles();
  expect(conditionOf(refused, "Ready")).toMatchObject({ status: "False", reason: "DeployFailed" });
  const errors = JSON.stringify(refused.status);
  expect(errors).toContain(`system:serviceaccount:${namespace}:limited`);
  expect(errors).toMatch(/cannot \w+ resource \\+"deployments\\+"/);
  expect(await cluster.find("apps/v1", "Deployment", "web")).toBeUndefined();
  expect(await cluster.data("beside-web")).toEqual({ color: "red" });

  expect(conditionOf(await straying!.settles(), "Ready")?.status).toBe("False");
  const elsewhere = await cluster.core.listNamespacedConfigMap({ namespace: "default" });
  expect(elsewhere.items.map(({ metadata }) => metadata?.name)).not.toContain(`from-${namespace}`);

  expect(conditionOf(await nobody!.settles(), "Ready")?.status).toBe("False");
  expect(await cluster.data("nobody")).toBeUndefined();

  const unnamed = await blank!.settles();
  expect(unnamed.status?.["lastPrepareError"]).toMatch(/^spec\.serviceAccountName: " " is not the name/);
  expect(await cluster.data("blank")).toBeUndefined();

  await good!.delete();
  await blind!.reaches("Ready");
  await blind!.delete();
  await expect.poll(() => good!.get(), patience).toBeUndefined();
  expect(await cluster.data("good")).toBeUndefined();
  await expect.poll(() => blind!.get(), patience).toBeUndefined();
  expect(await cluster.data("blind")).toEqual({ color: "red" });
  await expect
    .poll(async () => (await blind!.events()).map(({ type, reason, message }) => [type, reason, message]), patience)
    .toContainEqual(["Warning", "DeleteFailed", expect.stringContaining("permission error") as unknown]);
});

test("the default service account applies to deployments that name none", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await createAccount(cluster, "ordinary");
  await createAccount(cluster, "special");
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, name: "beside-web-{{ args.name }}", objects: { "web.yml": web(namespace) } }));
  await useTowline(world, { TOWLINE_DEFAULT_SERVICE_ACCOUNT: "ordinary" });
  const [unnamed, named] = ["unnamed", "named"].map((name) => cluster.deployment(name));
  await unnamed!.create(aSpec(repo.url, { args: { name: "unnamed" } }));
  await named!.create(aSpec(repo.url, { args: { name: "named" }, serviceAccountName: "special" }));
  expect(JSON.stringify((await unnamed!.settles()).status)).toContain(`system:serviceaccount:${namespace}:ordinary`);
  expect(JSON.stringify((await named!.settles()).status)).toContain(`system:serviceaccount:${namespace}:special`);
  expect(await cluster.find("apps/v1", "Deployment", "web")).toBeUndefined();
});
