/** What a pull request shows, on the real Gitea, against the real cluster. */
import { expect, test } from "vitest";
import { usePullRequests } from "../support/pull-requests.ts";
import { aProject, aSpec } from "../support/project.ts";
import { patience } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("a pull request shows what merging it would change, its next commit changes the comment, and merging deploys", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  const before = await deployment.settles();

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  const first = await pull.comment("blue");
  expect(first).toContain("merging changes 1 deployment");
  expect(first).toMatch(/data\.color:\n- +red\n\+ +blue/);
  const [comment] = await pull.comments();
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toEqual({
      [`towline/${deployment.key}`]: "success: 1 changed",
      towline: "success: changes 1 deployment: 1 changed",
    });
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect((await deployment.get())?.metadata?.resourceVersion).toBe(before.metadata?.resourceVersion);

  await pull.push(aProject({ namespace, data: { color: "green" } }));
  await pull.comment("green");
  expect((await pull.comments()).map(({ id }) => id)).toEqual([comment?.id]);

  await pull.merge();
  await pull.comment("Towline: merged into");
  await expect.poll(() => world.cluster.data("settings"), patience).toEqual({ color: "green" });
});
