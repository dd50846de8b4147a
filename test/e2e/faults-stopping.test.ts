/** SIGTERM in the middle of a deploy. */
import { expect, test, vi } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { findProcessesOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("a server that is stopped finishes its deploy first, and accepts deliveries as long as it can", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const server = await useFaultServer(world, journal, "server", { TOWLINE_SHUTDOWN_DRAIN: "60s" });
  await vi.waitFor(async () => expect((await readiness(server)).ready).toBe(true), patience);
  const release = await journal.hold('[ "$command" = deploy ]');
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);

  const answers: number[] = [];
  const sending = (async () => {
    for (;;) {
      const answer = await sendPush(server.webhooksUrl, { repo: repo.url, after: commit }).catch(() => undefined);
      if (answer === undefined) return;
      answers.push(answer.status);
    }
  })();
  await vi.waitFor(() => expect(answers.length).toBeGreaterThan(3), patience);
  server.child.kill("SIGTERM");
  await sending;
  expect(new Set(answers)).toEqual(new Set([202]));
  expect(await readiness(server)).toMatchObject({
    status: 503,
    checks: { server: { ok: false, error: "stopping" }, kubernetes: { ok: true }, redis: { ok: true } },
  });
  expect(server.child.exitCode).toBeNull();

  await release();
  expect(await server.ended).toBe(0);
  expect((await deployment.get())?.status).toMatchObject({ observedCommit: commit, observedGeneration: 1 });
  await deployment.reaches("Ready");
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(journal.deploys()).toMatchObject([{ exitCode: 0 }]);
  await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
});

test("a deploy that exceeds the drain timeout is handed to another server at once", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const lease = { TOWLINE_LEASE_DURATION: "5m" };
  const server = await useFaultServer(world, journal, "one", { TOWLINE_SHUTDOWN_DRAIN: "1s", ...lease });
  // This deploy ignores SIGTERM as well.
  await journal.stage(`if [ "$command" = deploy ]; then trap '' TERM; while :; do nap; done; fi; kluctl`);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);
  await journal.stage();
  const other = await useFaultServer(world, journal, "two", lease);

  server.child.kill("SIGTERM");
  expect(await server.ended).toBe(0);
  await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
  const ready = await deployment.reaches("Ready"); // the lease was released: no server had to wait for its expiry
  expect(ready.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(journal.overlaps()).toEqual([]);
  expect(journal.deploys()).toMatchObject([{ server: server.pid }, { server: other.pid, exitCode: 0 }]);
});

test("work that a stopped server handed back is done by the next one", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const server = await useFaultServer(world, journal, "server", { TOWLINE_SHUTDOWN_DRAIN: "0s" });
  const release = await journal.hold('[ "$command" = deploy ]');
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);

  server.child.kill("SIGTERM");
  expect(await server.ended).toBe(0);
  await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
  await release();
  await useFaultServer(world, journal, "server");
  const ready = await deployment.reaches("Ready");
  expect(ready.status).toMatchObject({ observedCommit: commit });
  expect(journal.deploys()).toHaveLength(2);
});
