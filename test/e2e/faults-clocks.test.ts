/** A server whose clock is two hours off, and one whose clock is set back while it runs. */
import { expect, test, vi } from "vitest";
import { useFaultServer } from "../support/faults.ts";
import { useJournal } from "../support/journal.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { aShiftedClock } from "../../dev/parts/shifted-clock.ts";
import { useWorld } from "../support/world.ts";

const twoHours = 7_200_000;

function lookedAt(resource: { status?: Record<string, unknown> } | undefined): number {
  const { endTime } = (resource?.status?.["lastDriftDetectionResult"] ?? {}) as { endTime?: string };
  return Date.parse(endTime ?? "");
}

test("status times from a server with a fast clock do not delay the checks of another server", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: world.cluster.namespace }));
  const { env } = await aShiftedClock(world.dir, twoHours);
  const ahead = await useFaultServer(world, journal, "ahead", env);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "3s" }));
  await deployment.reaches("Ready");
  // By now a check was skipped: its times are those of the server, not of kluctl, whose clock is right.
  await deployment.until("a check in the future", (resource) => lookedAt(resource) > Date.now() + twoHours / 2);
  await ahead.stop();

  const other = await useFaultServer(world, journal, "other");
  await vi.waitFor(() => expect(journal.runs().some(({ server }) => server === other.pid)).toBe(true), patience);
  await deployment.until("a check by a clock that is right", (resource) => lookedAt(resource) <= Date.now());
});

test("a server with a clock two hours slow checks in time after another server's check", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: world.cluster.namespace }));
  const first = await useFaultServer(world, journal, "first");
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "3s", deployInterval: "10s" }));
  await deployment.reaches("Ready");
  await first.stop();
  const deploys = journal.deploys().length;

  const { env } = await aShiftedClock(world.dir, -twoHours);
  const behind = await useFaultServer(world, journal, "behind", env);
  await vi.waitFor(() => expect(journal.runs().some(({ server }) => server === behind.pid)).toBe(true), patience);
  await vi.waitFor(() => expect(journal.deploys().length).toBeGreaterThan(deploys + 1), patience);
});

test("a clock that is set back stops neither the sweep nor the intervals", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const { env, set } = await aShiftedClock(world.dir, 0);
  await useFaultServer(world, journal, "server", env);
  const first = await world.repo("first");
  await first.push(aProject({ namespace, name: "first" }));
  await world.cluster.deployment("first").create(aSpec(first.url));
  await world.cluster.deployment("first").reaches("Ready");

  await set(-twoHours);
  const second = await world.repo("second");
  await second.push(aProject({ namespace, name: "second" }));
  const deployment = world.cluster.deployment("second");
  await deployment.create(aSpec(second.url));
  await deployment.reaches("Ready");
  // No webhook reports this push, and the server did not know the repository when the clock was set back.
  const commit = await second.push(aProject({ namespace, name: "second", data: { color: "blue" } }));
  await deployment.settles(commit);
  expect(await world.cluster.data("second")).toEqual({ color: "blue" });
});
