/** Deployments with the same discriminator do not overwrite or prune each other's objects. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { connectProducer } from "../../src/redis/connection.ts";
import { createFairness } from "../../jobs/fairness.ts";
import { createQueue } from "../../jobs/queue.ts";
import { repoId as repoIdOf } from "../../src/model/repo-url.ts";
import { silentLog } from "../support/fakes.ts";
import { useFaultProxy } from "../support/kube-fault-proxy.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { readyOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { useWorld } from "../support/world.ts";

test("a second deployment with the same discriminator is refused, and two that already exist do not prune", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const project = (color: string, objects: Record<string, object> = {}) =>
    aProject({ namespace, name: "{{ args.name }}", data: { color }, discriminator: `${namespace}-same`, objects });
  await repo.push(project("red"));
  const other = await world.repo("other");
  await other.push(project("green"));
  const towline = await useTowline(world);
  const [first, second, third] = ["first", "second", "third"].map((name) => cluster.deployment(name));
  const spec = (url: string, name: string) => aSpec(url, { args: { name }, prune: true, delete: true });
  const events = async (name: string) =>
    (await cluster.deployment(name).events()).map(({ reason, message }) => `${reason}: ${message}`).join("\n");
  await first!.create(spec(repo.url, "first"));
  await first!.reaches("Ready");

  await second!.create(spec(repo.url, "second"));
  const refused = readyOf(await second!.settles());
  expect(refused).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(refused.message).toMatch(
    new RegExp(
      `^not deployed: ${namespace}/first is older and deploys to this cluster with the same .*"${namespace}-same"`,
    ),
  );
  expect(await cluster.data("second")).toBeUndefined();
  await expect.poll(() => events("first"), patience).toContain(`${namespace}/second has the same`);
  expect(await events("second")).toContain("SharedDiscriminator: not deployed");

  // A different project's discriminator is unknown until its first deploy renders it. This does no harm.
  await third!.create(spec(other.url, "third"));
  const shares = `Shares the discriminator "${namespace}-same" with ${namespace}/first`;
  const warned = readyOf(await third!.reaches("Ready"));
  expect(warned.message).toContain(shares);
  expect(await cluster.data("first")).toEqual({ color: "red" });
  const pushed = await repo.push(project("blue"));
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: pushed });
  expect(readyOf(await first!.settles(pushed)).message).toContain(`with ${namespace}/third`);
  expect([await cluster.data("first"), await cluster.data("third")]).toEqual([{ color: "blue" }, { color: "green" }]);
  await expect.poll(() => events("first"), patience).toContain(`SharedDiscriminator: Shares the discriminator`);

  // Deleting a deployment leaves objects that others share; the last one deletes them.
  await third!.delete();
  await expect.poll(() => third!.get(), patience).toBeUndefined();
  expect(await cluster.data("third")).toEqual({ color: "green" });
  await first!.delete();
  await expect.poll(() => first!.get(), patience).toBeUndefined();
  expect(await cluster.data("first")).toBeUndefined();
  expect(await cluster.data("third")).toBeUndefined();

  // The discriminator is free again, and the refused deployment continues without a request.
  await second!.reaches("Ready");
  expect(await cluster.data("second")).toEqual({ color: "blue" });
});

test("until all other deployments are known, nothing is deleted, pruned or deployed for the first time", async () => {
  const world = await useWorld();
  const { cluster, redis } = world;
  const { namespace } = cluster;
  // Two repositories, so that the discriminator of one is unknown to the other before it is rendered.
  const [repo, other] = [await world.repo("shop"), await world.repo("other")];
  const project = (color: string) =>
    aProject({ namespace, name: "{{ args.name }}", data: { color }, discriminator: `${namespace}-{{ args.group }}` });
  await repo.push(project("red"));
  await other.push(project("green"));
  const spec = (url: string, name: string, group: string) =>
    aSpec(url, { args: { name, group }, prune: true, delete: true });
  const [pruning, beside, newcomer] = ["pruning", "beside", "newcomer"].map((name) => cluster.deployment(name));
  const [leaving, staying] = ["leaving", "staying"].map((name) => cluster.deployment(name));
  const before = await useTowline(world);
  await Promise.all([
    pruning!.create(spec(repo.url, "pruning", "pair")).then(() => pruning!.reaches("Ready")),
    leaving!.create(spec(repo.url, "leaving", "couple")).then(() => leaving!.reaches("Ready")),
  ]);
  await Promise.all([
    beside!.create(spec(other.url, "beside", "pair")).then(() => beside!.reaches("Ready")),
    staying!.create(spec(other.url, "staying", "couple")).then(() => staying!.reaches("Ready")),
  ]);
  await before.stop();

  // All three requests are queued before a server starts whose watch has not listed the deployments yet.
  const pushed = await repo.push(project("blue"));
  await leaving!.delete();
  await newcomer!.create(spec(repo.url, "newcomer", "pair"));
  const connection = connectProducer({ url: redis.url }, silentLog);
  const queue = createQueue({ connection, prefix: redis.prefix, fairness: createFairness(), log: silentLog });
  onTestFinished(async () => {
    await queue.close();
    connection.disconnect();
  });
  const names = ["pruning", "leaving", "newcomer"];
  const repoId = repoIdOf(repo.url);
  await queue.enqueue(
    names.map((name) => ({ kind: "reconcile", deployment: { namespace, name }, cause: "push", repo: repoId })),
  );
  const proxy = await useFaultProxy(cluster.kubeconfig);
  const kubeconfig = join(world.dir, "held-kubeconfig");
  await writeFile(kubeconfig, proxy.kubeconfig);
  const isList = (request: string) => /^GET .*\/kluctldeployments(?:\?|$)/.test(request);
  const held = proxy.hold((request) => isList(request) && !request.includes("labelSelector"), Infinity);
  const extra = { TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig, TOWLINE_CONCURRENCY: "3" };
  const { lines } = await useTowline(world, extra);
  const count = (...messages: string[]) => lines.filter(({ msg }) => messages.includes(msg)).length;
  const waiting = "waiting until all KluctlDeployments are listed";
  await expect.poll(() => count(waiting, "reconciled", "finalized"), patience).toBeGreaterThanOrEqual(names.length);
  held.release();

  expect(readyOf(await pruning!.settles(pushed)).message).toContain(`with ${namespace}/beside`);
  await expect.poll(() => leaving!.get(), patience).toBeUndefined();
  await newcomer!.until("the refusal", (now) => readyOf(now).message?.startsWith("not deployed:") ?? false);
  const data = Object.fromEntries(
    await Promise.all([...names, "beside", "staying"].map(async (name) => [name, await cluster.data(name)] as const)),
  );
  expect(data).toEqual({
    pruning: { color: "blue" },
    beside: { color: "green" },
    newcomer: undefined,
    leaving: { color: "red" },
    staying: { color: "green" },
  });
});
