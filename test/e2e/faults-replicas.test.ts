/** Two servers with one Redis and one cluster, and what happens if one of them dies or freezes. */
import { expect, test, vi } from "vitest";
import { useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { type Journal, useJournal } from "../support/journal.ts";
import { findProcessesOf, findRunsOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld, type TestWorld } from "../support/world.ts";

/** Creates a deployment whose first deploy is held; resolves once one of the servers is in the middle of it. */
async function aHeldDeploy(world: TestWorld, journal: Journal) {
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace }));
  const release = await journal.hold('[ "$command" = deploy ]');
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);
  return { repo, commit, deployment, release };
}

test("two servers never deploy the same deployment concurrently, and the last push wins", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  // One slot each: while one server deploys one target, the other target has to go to the other server.
  const single = { TOWLINE_CONCURRENCY: "1" };
  const [repo, one, two] = await Promise.all([
    world.repo("shop"),
    useFaultServer(world, journal, "one", single),
    useFaultServer(world, journal, "two", single),
  ]);
  const targets = ["prod", "staging"] as const;
  const project = (color: string) => aProject({ namespace, name: "settings-{{ target.name }}", data: { color } });
  await repo.push(project("first"));
  const deployments = targets.map((target) => world.cluster.deployment(target));
  await Promise.all(deployments.map((one, i) => one.create(aSpec(repo.url, { target: targets[i] }))));
  await Promise.all(deployments.map((one) => one.reaches("Ready")));

  let last = "";
  const pushes = 12;
  for (let i = 0; i < pushes; i++) {
    last = await repo.push(project(`color-${i}`));
    const answers = await Promise.all([one, two].map((t) => sendPush(t.webhooksUrl, { repo: repo.url, after: last })));
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
  }

  await Promise.all(deployments.map((one) => one.settles(last)));
  for (const target of targets)
    expect(await world.cluster.data(`settings-${target}`)).toEqual({ color: `color-${pushes - 1}` });
  expect(journal.overlaps()).toEqual([]);
  const deploys = journal.deploys();
  expect(deploys.every(({ exitCode }) => exitCode === 0)).toBe(true);
  // Each commit is deployed at most once per target, and both servers took part.
  expect(new Set(deploys.map(({ subject, commit }) => `${subject} ${commit}`)).size).toBe(deploys.length);
  expect(new Set(deploys.map(({ server }) => server))).toEqual(new Set([one.pid, two.pid]));
});

test("if a server is killed during a deploy, its kluctl ends too, and the other server completes the deploy", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const servers = await Promise.all([useFaultServer(world, journal, "one"), useFaultServer(world, journal, "two")]);
  const { commit, deployment, release } = await aHeldDeploy(world, journal);
  const [first] = journal.deploys();
  const victim = servers.find(({ pid }) => pid === first?.server)!;
  const other = servers.find(({ pid }) => pid !== first?.server)!;
  expect(findProcessesOf(victim.dataDir, [victim.pid]).length).toBeGreaterThan(1);

  victim.child.kill("SIGKILL");
  await vi.waitFor(() => expect(findProcessesOf(victim.dataDir)).toEqual([]), patience);
  await release();

  const ready = await deployment.reaches("Ready");
  expect(ready.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(journal.overlaps()).toEqual([]);
  // One killed deploy and one complete one, and no others.
  expect(journal.deploys().map(({ server, exitCode }) => [server, exitCode])).toEqual([
    [victim.pid, undefined],
    [other.pid, 0],
  ]);
});

test("a server that was killed during a deploy completes it after a restart", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const victim = await useFaultServer(world, journal, "one");
  const { commit, deployment, release } = await aHeldDeploy(world, journal);

  victim.child.kill("SIGKILL");
  await vi.waitFor(() => expect(findProcessesOf(victim.dataDir)).toEqual([]), patience);
  await release();
  const again = await useFaultServer(world, journal, "one");

  const ready = await deployment.reaches("Ready");
  expect(ready.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(journal.deploys().map(({ server, exitCode }) => [server, exitCode])).toEqual([
    [victim.pid, undefined],
    [again.pid, 0],
  ]);
});

test("if a server freezes during a deploy, its kluctl is killed before another server takes over, and it does no harm when it wakes", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const servers = await Promise.all([useFaultServer(world, journal, "one"), useFaultServer(world, journal, "two")]);
  const { repo, commit, deployment, release } = await aHeldDeploy(world, journal);
  const [first] = journal.deploys();
  const frozen = servers.find(({ pid }) => pid === first?.server)!;
  const other = servers.find(({ pid }) => pid !== first?.server)!;

  frozen.child.kill("SIGSTOP");
  await vi.waitFor(() => expect(findRunsOf(frozen.dataDir, frozen.pid)).toEqual([]), patience);
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(2), patience);
  const [broken, second] = journal.deploys();
  expect(second).toMatchObject({ server: other.pid, commit });
  // kluctl had been dead for a while when the lease became free.
  expect((second?.startedAt ?? 0) - (broken?.seenAt ?? 0)).toBeGreaterThan(1_000);

  // The frozen server wakes in the middle of the other's deploy, which completes undisturbed.
  frozen.child.kill("SIGCONT");
  await vi.waitFor(() => expect(frozen.lines.some(({ msg }) => msg.startsWith("lease lost"))).toBe(true), patience);
  await release();
  const ready = await deployment.reaches("Ready");
  expect(ready.status).toMatchObject({ observedCommit: commit });
  expect(journal.overlaps()).toEqual([]);
  expect(journal.deploys()).toHaveLength(2);

  // It works again: a push that it receives is deployed by one of the two.
  const next = await repo.push(aProject({ namespace: world.cluster.namespace, data: { color: "blue" } }));
  expect((await sendPush(frozen.webhooksUrl, { repo: repo.url, after: next })).status).toBe(202);
  await deployment.settles(next);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  expect(journal.overlaps()).toEqual([]);
});
