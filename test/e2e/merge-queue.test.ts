/** GitHub's merge queue: each group gets the status that a ruleset may require, whatever its result. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { useLocalGithub, useLocalPullRequests } from "../support/local-hosts.ts";
import { useMergeQueue } from "../support/merge-queue.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { rendersWhile } from "../support/pull-requests.ts";
import type { Towline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

async function useQueue(world: TestWorld, variables?: Record<string, string>) {
  const local = await useLocalGithub("app");
  const pulls = await useLocalPullRequests(world, local, { variables: () => variables ?? {} });
  const { namespace } = world.cluster;
  const project = (data: Record<string, string>, name = "settings") => aProject({ namespace, data, name });
  await pulls.push(project({ color: "red" }));
  return { local, pulls, queue: useMergeQueue(pulls, local), project };
}

/** An additional object of the project. */
function moreIn({ cluster: { namespace } }: TestWorld, name = "more"): string {
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace } });
}

async function metrics({ adminUrl }: Towline): Promise<string> {
  return (await fetch(`${adminUrl}/metrics`)).text();
}

/** Waits until the sweep has checked the repository for the first time; the next sweep is a day later. */
async function isSwept(towline: Towline): Promise<void> {
  await expect.poll(() => metrics(towline), patience).toMatch(/^towline_sweep_queries_total\{result="ok"\} [1-9]/m);
}

/** Waits until all queued jobs have ended. */
async function settles(towline: Towline): Promise<void> {
  const unsettled = async () => {
    const text = await metrics(towline);
    const jobs = [...text.matchAll(/^towline_queue_jobs\{lane="(?:preview|report)".*\} (\d+)$/gm)];
    return jobs.map(([, count]) => Number(count));
  };
  await expect.poll(async () => (await unsettled()).every((count) => count === 0), patience).toBe(true);
}

test("a group is compared on its own commit, and after the merge that commit's status says what was deployed", async () => {
  const world = await useWorld();
  const { pulls, queue, project } = await useQueue(world);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const first = await pulls.open(project({ color: "blue" }));
  const second = await pulls.open({ "app/more.yml": moreIn(world) });
  await first.comment("merging changes");
  await second.comment("merging changes");
  const comments = () => [first, second].map((pull) => pull.comments().map(({ body }) => body));
  const before = comments();

  const group = await queue.make(first);
  await Promise.all([group.tell("checks_requested"), group.tellByPush()]);
  await expect.poll(group.statuses, patience).toEqual({ towline: "success: changes 1 deployment: 1 object changed" });
  const behind = await queue.make(second, group);
  await behind.tellByPush();
  const both = `includes #${first.number}, #${second.number}`;
  await expect
    .poll(behind.statuses, patience)
    .toEqual({ towline: `success: changes 1 deployment: 1 object changed, 1 new; ${both}` });
  await Promise.all([behind.tell("checks_requested"), group.tellByPush()]);
  expect(comments()).toEqual(before);

  await group.merge();
  await deployment.settles(group.commit);
  const line = `towline/${deployment.key}`;
  const deployed = { [line]: "success: deployed: 1 changed", towline: "success: deployed: 1 changed" };
  await expect.poll(group.statuses, patience).toEqual(deployed);
  // Late events do not change the status.
  await Promise.all([group.tell("checks_requested"), group.tellByPush(true)]);
  await behind.tell("destroyed");
  await settles(pulls.towline);
  expect(group.statuses()).toEqual(deployed);
  expect(behind.writes().filter((state) => state !== "pending")).toEqual(["success"]);
});

test("a group also gets a status if nothing is compared or the comparison fails", async () => {
  const world = await useWorld();
  const { pulls, queue, project } = await useQueue(world);
  const pull = await pulls.open({ "app/broken.yml": "{{ nobody.knows }}\n" });
  const group = await queue.make(pull);
  await group.tell("checks_requested");
  await expect.poll(group.statuses, patience).toEqual({ towline: "success: no deployment is affected" });

  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const again = await queue.make(await pulls.open({ "app/broken.yml": "{{ nobody.knows }}\n" }));
  await again.tell("checks_requested");
  const cause = expect.stringMatching(/^failure: would fail: 1 deployment cannot be rendered; .*broken\.yml.*nobody/);
  await expect.poll(again.statuses, patience).toEqual({ towline: cause });
  expect(again.writes().filter((state) => state !== "pending")).toEqual(["failure"]);

  const forked = await pulls.open({}, { fork: true });
  const stranger = await queue.make({ ...forked, branch: (await pulls.open(project({ color: "black" }))).branch });
  await stranger.tell("checks_requested");
  await expect.poll(stranger.statuses, patience).toEqual({
    towline: `success: not rendered: #${forked.number} comes from a fork`,
  });

  // A sender who knows the webhook secret could claim that there is no group ahead.
  const behind = await queue.make(await pulls.open({ "app/more.yml": moreIn(world) }), stranger);
  await behind.tell("checks_requested", { base: await pulls.repo.git("rev-parse", "main") });
  await expect.poll(behind.statuses, patience).toEqual({
    towline: `success: not rendered: #${forked.number} comes from a fork`,
  });
});

test.each([
  ["no deployment is affected", {}],
  ["previews are switched off", { TOWLINE_PREVIEW_ENABLED: "false" }],
])(
  "a group on a branch that git does not have does not change the commit's status, also if %s",
  async (_, variables) => {
    const world = await useWorld();
    const { pulls, queue } = await useQueue(world, { ...variables, TOWLINE_SWEEP_INTERVAL: "24h" });
    const deployment = world.cluster.deployment("shop");
    await deployment.create(aSpec(pulls.repo.url));
    await deployment.settles();
    await isSwept(pulls.towline); // otherwise the sweep finds the group, and reports its status
    const group = await queue.make(await pulls.open({ "app/broken.yml": "{{ nobody.knows }}\n" }));
    const genuine = "TOWLINE_PREVIEW_ENABLED" in variables ? /^success: not compared/ : /^failure: .*broken\.yml/;

    // A sender who knows the webhook secret can send all of these.
    const ref = `refs/heads/gh-readonly-queue/nobody/pr-1-${group.base}`;
    for (const action of ["checks_requested", "destroyed", "checks_requested"] as const) {
      await group.tell(action, { ref });
      await settles(pulls.towline);
    }
    await group.tell("destroyed", { commit: await pulls.repo.git("rev-parse", "main") });
    await settles(pulls.towline);
    expect(group.statuses()).toEqual({});

    // These name the real group: `destroyed` is not trusted while the branch exists.
    await group.tell("destroyed");
    await group.tell("checks_requested");
    await expect.poll(group.statuses, patience).toEqual({ towline: expect.stringMatching(genuine) });
    await settles(pulls.towline);
    expect(group.writes().filter((state) => state !== "pending")).toHaveLength(1);
  },
);

test("with previews disabled, a group still gets a status", async () => {
  const world = await useWorld();
  const { pulls, queue } = await useQueue(world, { TOWLINE_PREVIEW_ENABLED: "false" });
  const group = await queue.make(await pulls.open({ "app/more.yml": moreIn(world) }));
  await group.tellByPush();
  await expect.poll(group.statuses, patience).toEqual({
    towline: "success: not compared: previews are disabled",
  });
});

test("a group with a fork is rendered if that is enabled, and a group without a webhook is found", async () => {
  const world = await useWorld();
  const variables = { TOWLINE_PREVIEW_FORKS_IN_MERGE_QUEUE: "true", TOWLINE_SWEEP_INTERVAL: "10s" };
  const { pulls, queue } = await useQueue(world, variables);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const { branch } = await pulls.open({ "app/more.yml": moreIn(world) });
  const { number } = await pulls.open({}, { fork: true });
  const forked = await queue.make({ number, branch });
  await forked.tell("checks_requested");
  await expect.poll(forked.statuses, patience).toEqual({ towline: "success: changes 1 deployment: 1 new object" });

  // No webhook announces this group.
  const unheard = await queue.make(await pulls.open({ "app/more.yml": moreIn(world, "other") }));
  await expect.poll(unheard.statuses, patience).toEqual({ towline: "success: changes 1 deployment: 1 new object" });
});

test("dropping a group from the queue ends its comparison", async () => {
  const world = await useWorld();
  const { local, pulls, queue } = await useQueue(world);
  const { canceled } = local.words;
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const gate = join(world.dir, "gate");
  await writeFile(gate, "");
  onTestFinished(() => rm(gate, { force: true }));
  const slow = { "app/slow.yml": rendersWhile(gate, { namespace: world.cluster.namespace }) };
  const group = await queue.make(await pulls.open(slow));
  await group.tell("checks_requested");
  await expect.poll(group.statuses, patience).toEqual({ towline: "pending: comparing 1 deployment" });

  await group.drop();
  await group.tell("destroyed");

  const dropped = { towline: `${canceled}: the merge queue is done with this commit` };
  await expect.poll(group.statuses, patience).toEqual(dropped);
  await rm(gate);
  await settles(pulls.towline);
  // A late announcement does not change the status of an ended group.
  await group.tellByPush();
  await settles(pulls.towline);
  expect(group.statuses()).toEqual(dropped);
});
