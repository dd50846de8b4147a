/** Two deployments that call the same objects their own do not fight for them. */
import { expect, test } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { readyOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { useWorld } from "../support/world.ts";

test("a second deployment of the same discriminator is refused, and two that are there already do not prune", async () => {
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
    new RegExp(`^not deployed: ${namespace}/first, which was there first, .*"${namespace}-same"`),
  );
  expect(await cluster.data("second")).toBeUndefined();
  await expect.poll(() => events("first"), patience).toContain(`${namespace}/second wants to deploy with the same`);
  expect(await events("second")).toContain("SharedDiscriminator: not deployed");

  // Of another project it is not known before it is rendered, which the first deploy does. No harm is done.
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

  // What goes leaves the objects to those who have them too; the last one takes them along.
  await third!.delete();
  await expect.poll(() => third!.get(), patience).toBeUndefined();
  expect(await cluster.data("third")).toEqual({ color: "green" });
  await first!.delete();
  await expect.poll(() => first!.get(), patience).toBeUndefined();
  expect(await cluster.data("first")).toBeUndefined();
  expect(await cluster.data("third")).toBeUndefined();

  // The place is free, and nobody has to say so.
  await second!.reaches("Ready");
  expect(await cluster.data("second")).toEqual({ color: "blue" });
});
