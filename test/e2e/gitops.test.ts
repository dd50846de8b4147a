/** kluctl's real command line, with requests to our server. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { kluctlEnvironment } from "../support/kluctl-beside.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { patience } from "../support/patience.ts";

const run = promisify(execFile);

/** Runs `kluctl gitops …` for one deployment; rejects with its output if it fails. */
async function gitops(world: TestWorld, command: string, name: string, ...more: string[]): Promise<string> {
  const { kluctl, cluster, dir } = world;
  const args = ["gitops", command, "--no-update-check", "--no-color", "--namespace", cluster.namespace, "--name", name];
  const options = { env: kluctlEnvironment(world), cwd: dir, timeout: patience.timeout };
  const { stdout, stderr } = await run(kluctl, [...args, ...more], options);
  return stdout + stderr;
}

test("kluctl's command line requests a reconciliation, suspends and resumes", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  await gitops(world, "reconcile", "shop");
  const { status, metadata } = await deployment.settles(second);
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  expect(metadata?.annotations ?? {}).toEqual({});
  expect(status?.["reconcileRequestResult"]).toMatchObject({ endTime: expect.any(String) as unknown });
  expect(status?.["reconcileRequestResult"]).not.toHaveProperty("commandError");

  await gitops(world, "suspend", "shop");
  expect((await deployment.get())?.spec).toMatchObject({ suspend: true });
  await repo.push(aProject({ namespace, data: { color: "green" } }));
  await gitops(world, "resume", "shop");
  expect((await deployment.get())?.spec["suspend"] ?? false).toBe(false);
  await expect.poll(() => cluster.data("settings"), patience).toEqual({ color: "green" });

  await repo.push({ "deployment.yaml": "deployments:\n  - path: no-such-directory\n" });
  await expect(gitops(world, "reconcile", "shop")).rejects.toThrow(/no-such-directory/);
  expect(await cluster.data("settings")).toEqual({ color: "green" });
});
