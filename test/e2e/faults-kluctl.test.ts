/** A kluctl that is missing, hangs, dies or writes garbage, and projects that never render. */
import { readFileSync } from "node:fs";
import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { logOf, readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld, type TestWorld } from "../support/world.ts";
import { conditionOf, type TestResource } from "../support/world-cluster.ts";

/** Creates a deployment with a repository and a ConfigMap of its own, all with this name. */
async function aDeployment(world: TestWorld, name: string, spec: Record<string, unknown> = {}) {
  const { namespace } = world.cluster;
  const repo = await world.repo(name);
  const project = (color: string) => aProject({ namespace, name, data: { color } });
  await repo.push(project("red"));
  const deployment = world.cluster.deployment(name);
  return {
    ...deployment,
    repo,
    create: () => deployment.create(aSpec(repo.url, spec)),
    push: (color: string) => repo.push(project(color)),
    data: () => world.cluster.data(name),
    says: (words: RegExp, withinMs?: number) =>
      deployment.until(String(words), (resource) => words.test(problemOf(resource)), withinMs),
  };
}

function problemOf(resource: TestResource): string {
  const ready = conditionOf(resource, "Ready");
  if (ready?.status !== "False") return "";
  const prepareError = resource.status?.["lastPrepareError"];
  return `${ready.message} ${typeof prepareError === "string" ? prepareError : ""}`;
}

test("a missing or outdated kluctl is reported, and used as soon as it is replaced", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const bin = join(world.dir, "bin");
  await mkdir(bin);
  const shop = await aDeployment(world, "shop", { retryInterval: "5s" });
  const server = await useFaultServer(world, { kluctl: join(bin, "kluctl") }, "server");
  await vi.waitFor(
    async () =>
      expect(await readiness(server)).toMatchObject({
        status: 503,
        checks: {
          kluctl: { ok: false, error: expect.stringMatching(/^kluctl not found.*TOWLINE_KLUCTL/) as string },
        },
      }),
    patience,
  );
  await shop.create();
  await shop.says(/kluctl not found/);

  await writeFile(join(bin, "kluctl"), "#!/bin/bash\necho 2.20.0\n", { mode: 0o755 });
  await vi.waitFor(
    async () =>
      expect((await readiness(server)).checks["kluctl"]?.error).toMatch(/^kluctl 2\.20\.0 at .* is too old: 2\.22\.1/),
    patience,
  );
  await copyFile(journal.kluctl, join(bin, "new"));
  await chmod(join(bin, "new"), 0o755);
  await copyFile(join(bin, "new"), join(bin, "kluctl"));
  await vi.waitFor(async () => expect(await readiness(server)).toMatchObject({ status: 200 }), patience);
  await shop.reaches("Ready");
  expect(await shop.data()).toEqual({ color: "red" });
});

test("deployments that hang, die or never render do not affect others, and are not retried endlessly", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const [hanging, endless, dying, broken, shop] = await Promise.all([
    aDeployment(world, "hanging", { timeout: "30s" }),
    // Until the others are done, however slow the machine is.
    aDeployment(world, "endless", { timeout: "1h" }),
    aDeployment(world, "dying"),
    aDeployment(world, "broken"),
    aDeployment(world, "shop"),
  ]);
  await broken.repo.push({ "app/settings.yml": "color: {{ no.such.variable }}\n" });
  const othersAreDone = join(world.dir, "others-are-done");
  await journal.stage(`
    case $subject in
      hanging/*) trap '' TERM; while :; do nap; done ;;
      endless/*) trap '' TERM; until [ -e '${othersAreDone}' ]; do nap; done ;;
      dying/*) kill -KILL $BASHPID ;;
    esac
    kluctl`);
  const server = await useFaultServer(world, journal, "server");
  await endless.create();
  await vi.waitFor(() => expect(journal.deploys("endless/prod")).toHaveLength(1), patience);
  await Promise.all([dying.create(), broken.create(), shop.create()]);

  await shop.reaches("Ready");
  await Promise.all([
    dying.says(/kluctl deploy was killed \(exit status 137\): out of memory, or by another process/),
    broken.says(/is undefined/),
  ]);
  for (const color of ["green", "blue"]) {
    const commit = await shop.push(color);
    expect((await sendPush(server.webhooksUrl, { repo: shop.repo.url, after: commit })).status).toBe(202);
    await shop.settles(commit);
    expect(await shop.data()).toEqual({ color });
  }
  expect(
    journal.runs().filter(({ subject, exitCode }) => subject === "endless/prod" && exitCode !== undefined),
  ).toEqual([]); // it was still hanging
  await writeFile(othersAreDone, "");
  await endless.reaches("Ready");

  await hanging.create();
  await hanging.says(/kluctl deploy was ended because it took longer than \d+ s/);
  await vi.waitFor(() => expect(journal.deploys("dying/prod").length).toBeGreaterThanOrEqual(5), patience);
  // On a slow machine it has had time for more, but after each fifth try there is a pause of half a minute or more.
  const starts = journal.deploys("dying/prod").map(({ startedAt }) => startedAt);
  const pauses = starts.slice(1).filter((at, index) => at - starts[index]! >= 25_000);
  expect(pauses.length).toBeGreaterThanOrEqual(Math.floor((starts.length - 1) / 5));
  const tries = (subject: string) => journal.runs().filter((run) => run.subject === subject).length;
  // The first needs a change by its user, and the second would only hang again. Twice if Redis considered the job
  // stalled meanwhile.
  expect(tries("broken/prod")).toBeLessThanOrEqual(2);
  expect(tries("hanging/prod")).toBeLessThanOrEqual(2);

  await journal.stage();
  const mended = await broken.push("green");
  await sendPush(server.webhooksUrl, { repo: broken.repo.url, after: mended });
  await broken.reaches("Ready");
  expect(journal.overlaps()).toEqual([]);
});

test("a kluctl that dies or writes garbage once is run again, and the output of one that floods is limited", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const names = ["killed", "silent", "garbage", "flooding"] as const;
  const all = await Promise.all(names.map((name) => aDeployment(world, name)));
  const [killed, silent, garbage, flooding] = all as [
    (typeof all)[0],
    (typeof all)[0],
    (typeof all)[0],
    (typeof all)[0],
  ];
  await journal.stage(`
    case $subject in
      killed/*) kill -KILL $BASHPID ;;
      silent/*) exit 0 ;;
      garbage/*) head -c 5000 /dev/urandom >$out; exit 0 ;;
      flooding/*) yes "$(printf 'x%.0s' {1..1000})" | head -c 200000000 | tee /dev/stderr ;;
    esac
    kluctl`);
  const server = await useFaultServer(world, journal, "server", { TOWLINE_LOG_LEVEL: "debug" });
  await Promise.all(all.map((one) => one.create()));
  await Promise.all([
    killed.says(/was killed \(exit status 137\)/),
    silent.says(/kluctl's result cannot be read: kluctl wrote none/),
    garbage.says(/kluctl's result cannot be read: its 5000 bytes are in no format that Towline knows/),
    flooding.reaches("Ready"),
  ]);
  const flooded = server.lines.filter((line) => JSON.stringify(line).includes("xxxxxxxx"));
  expect(flooded.length).toBeLessThan(5_000);
  expect(megabytesOf(server.pid)).toBeLessThan(400);

  await journal.stage();
  await Promise.all(all.map((one) => one.reaches("Ready")));
  expect(await Promise.all(all.map((one) => one.data()))).toEqual(names.map(() => ({ color: "red" })));
  expect(logOf(server)).not.toContain("unexpected error");
});

function megabytesOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}
