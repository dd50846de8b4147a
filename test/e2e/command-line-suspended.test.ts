/** Suspended deployments at the terminal: what reconciles them, and what leaves them alone. */
import { expect, test } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { useController } from "../support/kluctl-controller.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("a suspended deployment is reconciled if it is named, as with kluctl's controller, and never by --all or a label", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const push = (color: string) => repo.push(aProject({ namespace, data: { color } }));
  const color = async () => (await cluster.data("settings"))?.["color"];
  const env = environment(world);
  const towline = (...argv: string[]) => commandLine(argv, { env });

  const server = await useTowline(world);
  await push("red");
  const shop = cluster.deployment("shop");
  await shop.create(aSpec(repo.url));
  await shop.patch({ metadata: { labels: { team: "shop" } } });
  await shop.reaches("Ready");
  expect(await towline("suspend", "shop")).toMatchObject({ code: 0 });
  const blue = (await push("blue")).slice(0, 7);

  for (const all of [["--all"], ["-l", "team=shop"]]) {
    expect(await towline("reconcile", ...all)).toMatchObject({
      code: 0,
      out: `${shop.key}: skipped: suspended\n`,
    });
  }
  expect((await shop.get())?.status?.["reconcileRequestResult"]).toBeUndefined();
  expect(await color()).toBe("red");

  const deployed = /: suspended at \w+: deployed because you named it\. deploy succeeded\. 1 changed objects\.\n$/;
  const named = await towline("reconcile", shop.key);
  expect(named.out).toMatch(deployed);
  expect(named).toMatchObject({ code: 0, out: expect.stringContaining(blue) as string });
  expect(await color()).toBe("blue");
  expect(await towline("reconcile", shop.key)).toMatchObject({
    code: 0,
    out: `${shop.key}: suspended at ${blue}: nothing deployed\n`,
  });
  expect((await shop.get())?.spec["suspend"]).toBe(true);
  await server.stop();

  // The same annotation, and kluctl's own controller.
  const green = (await push("green")).slice(0, 7);
  useController(world);
  const byKluctl = await towline("reconcile", shop.key);
  expect(byKluctl.out).toMatch(deployed);
  expect(byKluctl).toMatchObject({ code: 0, out: expect.stringContaining(green) as string });
  expect(await color()).toBe("green");
});
