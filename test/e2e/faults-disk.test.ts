/** A full disk. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test.skipIf(!canMount())("a full disk is reported, and work continues once there is room", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const dataDir = join(world.dir, "server");
  mkdirSync(dataDir);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", dataDir]);
  onTestFinished(() => void execFileSync("umount", ["-l", dataDir]));
  const repo = await world.repo("shop");
  const project = (color: string) => aProject({ namespace, data: { color } });
  await repo.push(project("red"));
  const server = await useFaultServer(world, world, "server");
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { retryInterval: "5s" }));
  await deployment.reaches("Ready");

  const ballast = join(dataDir, "ballast");
  const { bavail, bsize } = statfsSync(dataDir);
  writeFileSync(ballast, Buffer.alloc(bavail * bsize));
  const next = await repo.push(project("blue"));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: next })).status).toBe(202);
  await deployment.until("a word about the disk", ({ status }) =>
    /no (room|space) left on/i.test(JSON.stringify(status)),
  );
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(server.child.exitCode).toBeNull();
  await vi.waitFor(async () => expect((await readiness(server)).status).toBe(200), patience);

  rmSync(ballast);
  await deployment.reaches("Ready");
  await deployment.settles(next);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
});

/** Only root can mount, and not in every container. */
function canMount(): boolean {
  const directory = mkdtempSync(join(tmpdir(), "towline-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", directory], { stdio: "ignore" });
    execFileSync("umount", [directory]);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(directory);
  }
}
