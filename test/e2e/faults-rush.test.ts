/** Pushes that arrive faster than they can be deployed. */
import { expect, test, vi } from "vitest";
import { useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

async function aDeployedShop(extra: Record<string, string> = {}) {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const push = (color: string) => repo.push(aProject({ namespace, data: { color } }));
  const first = await push("red");
  const server = await useFaultServer(world, journal, "server", extra);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const send = async (commit: string) => {
    const answer = await sendPush(server.webhooksUrl, { repo: repo.url, after: commit });
    expect(answer.status).toBe(202);
  };
  return { world, journal, deployment, push, send, first };
}

// Without sweeps, so that pushes are only found by their deliveries.
const withoutSweeps = { TOWLINE_SWEEP_INTERVAL: "1h" };

test("a push that arrives during a deploy is deployed right after it", async () => {
  const { world, journal, deployment, push, send } = await aDeployedShop(withoutSweeps);
  const release = await journal.hold('[ "$command" = deploy ]');
  const green = await push("green");
  await send(green);
  await vi.waitFor(() => expect(journal.deploys().at(-1)?.commit).toBe(green), patience);

  const blue = await push("blue");
  await send(blue);
  await release();
  await deployment.settles(blue);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  const [one, two] = journal.deploys().slice(-2);
  expect([one?.commit, two?.commit]).toEqual([green, blue]);
  expect(journal.overlaps()).toEqual([]);
});

test("twenty pushes in a row take a few deploys, and the last one wins", async () => {
  const { world, journal, deployment, push, send, first } = await aDeployedShop(withoutSweeps);
  const release = await journal.hold('[ "$command" = deploy ]');
  let last = "";
  for (let i = 1; i <= 20; i++) {
    last = await push(`color-${i}`);
    await send(last);
    // The others arrive while the first is being deployed.
    if (i === 1) await vi.waitFor(() => expect(journal.deploys().at(-1)?.commit).toBe(last), patience);
  }
  await release();

  await deployment.settles(last);
  expect(await world.cluster.data("settings")).toEqual({ color: "color-20" });
  const deploys = journal.deploys().filter(({ commit }) => commit !== first);
  expect(deploys).toHaveLength(2);
  expect(deploys.at(-1)).toMatchObject({ commit: last, exitCode: 0 });
  expect(journal.overlaps()).toEqual([]);
});
