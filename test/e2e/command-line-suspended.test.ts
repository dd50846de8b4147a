/** Suspended deployments on the command line: which commands reconcile them, and which skip them. */
import { expect, test, vi } from "vitest";
import { runDoctor } from "../../src/app/doctor.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { useController } from "../support/kluctl-controller.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, sendPush, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("a suspended deployment is reconciled if it is named, as with kluctl's controller, but not by --all or a label", async () => {
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

  // The same annotation, with kluctl's own controller.
  const green = (await push("green")).slice(0, 7);
  useController(world);
  const byKluctl = await towline("reconcile", shop.key);
  expect(byKluctl.out).toMatch(deployed);
  expect(byKluctl).toMatchObject({ code: 0, out: expect.stringContaining(green) as string });
  expect(await color()).toBe("green");
});

test("a push to a suspended deployment is traced as suspended, and the newer commit is shown until it is deployed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const push = (color: string) => repo.push(aProject({ namespace, data: { color } }));
  const env = environment(world);
  const towline = (...argv: string[]) => commandLine(argv, { env });
  const server = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  await push("red");
  const shop = cluster.deployment("shop");
  await shop.create(aSpec(repo.url));
  await shop.reaches("Ready");
  await towline("suspend", "shop");

  const blue = await push("blue");
  const answer = await sendPush(server.webhooksUrl, { repo: repo.url, after: blue });
  expect(await answer.json()).toMatchObject({ matched: 0, queued: 0 });
  await vi.waitFor(async () => {
    const traced = await towline("trace", blue);
    expect(traced.code).toBe(1);
    expect(traced.out).toMatch(/: suspended\n.*received [^]*not deployed until it is resumed \(`towline resume`\)\n/);
    expect(traced.out).not.toContain("affects no deployment");
  }, patience);
  const why = async () => (await towline("get", "kd")).out;
  await vi.waitFor(
    async () => expect(await why()).toContain(`suspended: ${blue.slice(0, 7)} is not deployed`),
    patience,
  );

  // If the webhook is lost, the sweep finds the commit; the pending commit is stored in the resource only.
  const green = await push("green");
  await vi.waitFor(
    async () => expect(await why()).toContain(`suspended: ${green.slice(0, 7)} is not deployed`),
    patience,
  );
  expect(await towline("trace", green)).toMatchObject({
    code: 1,
    out: expect.stringContaining(": suspended\n") as string,
  });
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  // A diff renders the commit, and deploys nothing.
  await shop.patch({ metadata: { annotations: { "kluctl.io/request-diff": "look" } } });
  await shop.until(
    "the diff",
    ({ status }) => (status?.["diffRequestResult"] as { endTime?: string })?.endTime !== undefined,
  );
  await shop.settles();
  expect(await towline("trace", green)).toMatchObject({
    code: 1,
    out: expect.stringContaining(": suspended\n") as string,
  });

  expect(await towline("resume", "shop")).toMatchObject({ code: 0 });
  expect(await towline("trace", green)).toMatchObject({
    code: 0,
    out: expect.stringContaining(": applied\n") as string,
  });
  expect(await towline("trace", blue)).toMatchObject({
    code: 0,
    out: expect.stringContaining(": superseded\n") as string,
  });
  expect(await why()).not.toContain("not deployed");

  const doctor = await commandLine(["doctor", "--no-compare", "-o", "json"], { env, doctor: runDoctor });
  const { checks } = JSON.parse(doctor.out) as { checks: { subject: string; message: string }[] };
  expect(checks.find(({ subject }) => subject === "namespaces")?.message).toMatch(
    new RegExp(`^watched: ${namespace}(;|$)`),
  );
});
