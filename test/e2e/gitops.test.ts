/** The real kluctl beside us: its command line asks us, and its controller takes our place and gives it back. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { kluctlEnvironment } from "../support/kluctl-beside.ts";
import { useController } from "../support/kluctl-controller.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { idOf, type TestResource } from "../support/world-cluster.ts";

const run = promisify(execFile);

/** `kluctl gitops …` for one deployment; rejects, with what it said, unless it ends well. */
async function gitops(world: TestWorld, command: string, name: string, ...more: string[]): Promise<string> {
  const { kluctl, cluster, dir } = world;
  const args = ["gitops", command, "--no-update-check", "--no-color", "--namespace", cluster.namespace, "--name", name];
  const options = { env: kluctlEnvironment(world), cwd: dir, timeout: 90_000 };
  const { stdout, stderr } = await run(kluctl, [...args, ...more], options);
  return stdout + stderr;
}

test("kluctl's command line asks for a reconcile, suspends and resumes", async () => {
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
  await expect.poll(() => cluster.data("settings"), { timeout: 60_000 }).toEqual({ color: "green" });

  await repo.push({ "deployment.yaml": "deployments:\n  - path: no-such-directory\n" });
  await expect(gitops(world, "reconcile", "shop")).rejects.toThrow(/no-such-directory/);
  await expect(gitops(world, "reconcile", "shop", "-a", "color=pink")).rejects.toThrow(/cannot override/);
  expect(await cluster.data("settings")).toEqual({ color: "green" });
});

test("a deployment goes to kluctl's controller and comes back without being deployed again", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const project = (color: string) => {
    const files = Object.entries(aProject({ namespace, data: { color } }));
    return {
      ...Object.fromEntries(files.map(([path, content]) => [`shop/${path}`, content])),
      // What JSON's writers disagree about.
      "shop/app/odd.yml": `apiVersion: v1
kind: ConfigMap
metadata: { name: odd, namespace: ${namespace} }
data: { odd: "<a> & b\\u2028 é 😀 \\t" }
`,
      "shop/deployment.yaml": stringify({
        deployments: [{ path: "app" }, { barrier: true }, { include: "more" }],
        commonLabels: { team: "{{ args.team }}" },
      }),
      "shop/more/deployment.yaml": stringify({ deployments: [{ path: "b" }, { path: "a" }] }),
      ...Object.fromEntries(
        ["a", "b"].map((name) => [
          `shop/more/${name}/map.yml`,
          stringify({
            apiVersion: "v1",
            kind: "ConfigMap",
            metadata: { name, namespace },
            data: { image: "{{ images.get_image('shop') }}" },
          }),
        ]),
      ),
    };
  };
  await repo.push(project("red"));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  const source = { git: { url: repo.url, path: "shop", ref: { branch: "main" } } };
  const images = [{ image: "shop", resultImage: "shop:v1" }];
  await deployment.create(aSpec(repo.url, { source, images, args: { team: "a-team" }, validate: true }));
  const ready = await deployment.reaches("Ready");

  async function facts() {
    const resource = (await deployment.get()) as TestResource;
    const { status } = resource;
    const objects = await Promise.all(
      ["settings", "a", "b"].map((name) => cluster.find<KubernetesObject>("v1", "ConfigMap", name)),
    );
    return {
      hash: status?.["lastObjectsHash"],
      deploy: idOf(resource, "lastDeployResult"),
      projectKey: status?.["projectKey"],
      targetKey: status?.["targetKey"],
      versions: objects.map((object) => object?.metadata?.resourceVersion),
      ready: status?.conditions?.map(({ type, status, reason, message }) => ({ type, status, reason, message })),
    };
  }

  const ours = await facts();
  await towline.stop();
  const stopController = useController(world);
  await gitops(world, "reconcile", "shop");
  await deployment.until(
    "a loop of the controller",
    (now) => idOf(now, "lastDriftDetectionResult") !== idOf(ready, "lastDriftDetectionResult"),
  );
  await deployment.settles();
  expect(await facts()).toEqual(ours);

  const second = await repo.push(project("blue"));
  await gitops(world, "reconcile", "shop");
  await deployment.settles(second);
  const theirs = await facts();
  expect(theirs.hash).not.toBe(ours.hash);
  expect(await cluster.data("settings")).toMatchObject({ color: "blue" });
  await stopController();

  await useTowline(world);
  await gitops(world, "reconcile", "shop");
  await deployment.settles(second);
  expect(await facts()).toEqual(theirs);
});
