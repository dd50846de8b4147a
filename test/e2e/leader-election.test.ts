/**
 * kluctl's controller and our server share a Lease, both with `--leader-elect`: the holder works, and the other one
 * waits.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { V1Lease } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { canSeemInPod, useControllerInPod, useOwnController } from "../support/kluctl-controller.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import type { TestDeployment, TestResource } from "../support/world-cluster.ts";

const theirs = { "leader-elect": "true" };
/** With a controller name of our own, which distinguishes our writes from those of kluctl's controller. */
const ours = { "leader-elect": "true", "controller-name": "ours" };

async function holderOf({ cluster }: TestWorld): Promise<string> {
  const lease = await cluster.find<V1Lease>("coordination.k8s.io/v1", "Lease", "5ab5d0f9.kluctl.io");
  return lease?.spec?.holderIdentity ?? "";
}

/** All holders of the Lease that were observed, in order. */
function watchHolders(world: TestWorld): readonly string[] {
  const holders: string[] = [];
  let ended = false;
  const watching = (async () => {
    while (!ended) {
      const holder = await holderOf(world);
      if (holder !== "" && holder !== holders.at(-1)) holders.push(holder);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  onTestFinished(async () => {
    ended = true;
    await watching;
  });
  return holders;
}

async function says(world: TestWorld, words: string): Promise<void> {
  await expect.poll(() => readFile(join(world.dir, "controller.log"), "utf8"), patience).toContain(words);
}

/** Requests a reconciliation, and returns the field manager of the answer. */
async function whoAnswers(deployment: TestDeployment, requestValue: string): Promise<string | undefined> {
  await deployment.patch({
    metadata: { annotations: { "kluctl.io/request-reconcile": JSON.stringify({ requestValue }) } },
  });
  const answered = await deployment.until("the end of the request", ({ status }) => {
    const { request, endTime } = (status?.["reconcileRequestResult"] ?? {}) as {
      request?: { requestValue?: string };
      endTime?: string;
    };
    return request?.requestValue === requestValue && endTime !== undefined;
  });
  return writerOf(answered);
}

/** The field manager of the answer: a new value has exactly one owner. */
function writerOf({ metadata }: TestResource): string | undefined {
  const owner = metadata?.managedFields?.find(({ fieldsV1 }) => {
    const { "f:status": status } = fieldsV1 as { "f:status"?: { "f:reconcileRequestResult"?: Record<string, object> } };
    return "f:requestValue" in (status?.["f:reconcileRequestResult"]?.["f:request"] ?? {});
  });
  return owner?.manager;
}

test.skipIf(!canSeemInPod())(
  "the Lease goes from us to kluctl's controller and back, and only its holder works",
  async () => {
    const world = await useWorld();
    const { cluster } = world;
    const repo = await world.repo("shop");
    await repo.push(aProject({ namespace: cluster.namespace }));
    const holders = watchHolders(world);
    const deployment = cluster.deployment("shop");

    const stopFirst = useOwnController(world, ours);
    await deployment.create(aSpec(repo.url));
    await deployment.reaches("Ready");
    const stopTheirs = useControllerInPod(world, theirs);
    await says(world, "attempting to acquire leader lease");
    expect(await whoAnswers(deployment, "first")).toBe("ours");

    await stopFirst();
    expect(await whoAnswers(deployment, "second")).toBe("kluctl-controller");
    useOwnController(world, ours);
    await says(world, "not leading yet: another controller holds the Lease");
    expect(await whoAnswers(deployment, "third")).toBe("kluctl-controller");

    // kluctl's controller does not release the Lease when it stops, so our server has to wait for it to expire.
    await stopTheirs();
    expect(await holderOf(world)).toBe(holders.at(-1));
    expect(await whoAnswers(deployment, "fourth")).toBe("ours");
    expect(holders).toHaveLength(3);
    expect(new Set(holders).size).toBe(3);
  },
);

test("a server that waits for another one to end takes deliveries for it", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, data: { color: "red" } }));
  // Nothing else finds the push.
  const alone = {
    TOWLINE_LEADER_ELECTION: "exclusive",
    TOWLINE_CONTROLLER_NAMESPACE: namespace,
    TOWLINE_SWEEP_INTERVAL: "24h",
  };
  await useTowline(world, alone);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "24h" }));
  await deployment.reaches("Ready");
  const standby = await useTowline(world, alone);

  const after = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(standby.webhooksUrl, { repo: repo.url, after });
  expect(answer.status).toBe(202);
  expect(await answer.json()).toMatchObject({ matched: 1, queued: 1 });
  await expect.poll(() => cluster.data("settings"), patience).toMatchObject({ color: "blue" });
  const readiness = (await (await fetch(`${standby.adminUrl}/readyz`)).json()) as { checks?: unknown };
  expect(JSON.stringify(readiness)).toContain("standby");
  expect(standby.lines.filter(({ msg }) => /not leading yet/.test(msg)).length).toBeGreaterThan(0);
});
