/** Requests that users make with kluctl's own command line, and their results. */
import { gunzipSync } from "node:zlib";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { ManualKind, ManualResult } from "../../src/model.ts";
import { gitops } from "../support/gitops-client.ts";
import { useControllerPod } from "../support/kubelet.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useTowlineProcess } from "../support/towline.ts";
import { conditionOf, readyOf, type TestCluster, type TestResource } from "../support/world-cluster.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

function answerOf({ status }: TestResource, kind: ManualKind): ManualResult {
  return status?.[`${kind}RequestResult`] as ManualResult;
}

async function storedResult({ core }: TestCluster, id: string | undefined): Promise<Record<string, unknown>> {
  const labelSelector = `kluctl.io/command-result-id=${id}`;
  const { items } = await core.listNamespacedSecret({ namespace: "kluctl-results", labelSelector });
  const bytes = Buffer.from(items[0]?.data?.["reducedResult"] ?? "", "base64");
  return JSON.parse(gunzipSync(bytes).toString("utf8")) as Record<string, unknown>;
}

/** A project whose arguments set names and content of its ConfigMaps. */
function project(namespace: string, more: Record<string, object> = {}) {
  const data = { color: "{{ args.color }}", image: "{{ images.get_image('shop') }}" };
  return aProject({
    namespace,
    name: "{{ args.name }}",
    data,
    objects: more,
    discriminator: `${namespace}-{{ args.name }}`,
  });
}

async function create(world: TestWorld, url: string, name: string, spec: object = {}, labels: object = {}) {
  const { cluster } = world;
  const images = [{ image: "shop", resultImage: "shop:v1" }];
  const deployment = cluster.deployment(name);
  await deployment.create(aSpec(url, { args: { name, color: "red" }, images, ...spec }));
  await deployment.patch({ metadata: { labels } });
  await deployment.reaches("Ready");
  return deployment;
}

test("diff, deploy, prune and validate do what is requested, even if suspended, and report the result", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const held = (finalizers: string[]) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "held", namespace, finalizers },
  });
  await repo.push(project(namespace, { "held.yml": held(["example.com/never"]) }));
  const towline = await useTowlineProcess(world);
  await useControllerPod(cluster, towline.lines);

  const team = await world.repo("team");
  await team.push({ "deployment.yaml": "deployments: []\n" });
  const [shop, one, two] = await Promise.all([
    create(world, repo.url, "shop"),
    create(world, team.url, "one", { target: undefined }, { team: "a" }),
    create(world, team.url, "two", { target: undefined }, { team: "a" }),
  ]);

  /** Requests to one suspended deployment. */
  async function commands(): Promise<void> {
    await shop.patch({ spec: { suspend: true } });
    const suspended = await shop.settles();
    const name = ["--name", "shop", "--controller-namespace", namespace];

    const diff = await gitops(world, ["diff", ...name, "-a", "color=pink"]);
    expect(diff, diff.stderr).toMatchObject({ code: 0 });
    expect(diff.stdout).toMatch(/Changed objects:\n {2}.*\/ConfigMap\/shop/);
    expect(diff.stdout).toMatch(/\| -red +\|\n.*\| \+pink +\|/);
    expect(await cluster.data("shop")).toEqual({ color: "red", image: "shop:v1" });
    const compared = (await shop.get()) as TestResource;
    expect(compared.metadata?.annotations ?? {}).toEqual({});
    expect(readyOf(compared)).toEqual(readyOf(suspended));
    expect(answerOf(compared, "diff").request.overridesPatch).toEqual({ spec: { args: { color: "pink" } } });

    const flags =
      "--dry-run --force-apply --replace-on-error --force-replace-on-error --abort-on-error --no-wait --prune";
    const more =
      "-t staging -T other --target-context default -F shop=shop:v2 -I app -E no --exclude-deployment-dir=no";
    const all = [...flags.split(" "), ...more.split(" "), "--include-deployment-dir=app", "-a", "color=blue"];
    const pretended = await gitops(world, ["deploy", ...name, ...all]);
    expect(pretended, pretended.stderr).toMatchObject({ code: 0 });
    expect(pretended.stdout).toContain("+shop:v2");
    expect(await cluster.data("shop")).toEqual({ color: "red", image: "shop:v1" });
    const { resultId, reconcileId } = answerOf((await shop.get()) as TestResource, "deploy");
    const stored = await storedResult(cluster, resultId);
    expect(stored).toMatchObject({
      reconcileId,
      overridesPatch: {
        spec: { dryRun: true, prune: true, target: "staging", images: [{}, { resultImage: "shop:v2" }] },
      },
      target: { name: "other" },
      command: {
        initiator: "KluctlDeployment",
        command: "deploy",
        targetNameOverride: "other",
        contextOverride: "default",
        args: { name: "shop", color: "blue" },
        dryRun: true,
        noWait: true,
        forceApply: true,
        replaceOnError: true,
        forceReplaceOnError: true,
        abortOnError: true,
        includeDeploymentDirs: ["app"],
        excludeDeploymentDirs: ["no"],
      },
    });

    const wrong = await gitops(world, ["deploy", ...name, "-t", "nowhere"]);
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("nowhere") as string });
    expect(readyOf(await shop.settles())).toMatchObject({ status: "True" });

    await repo.push({ "app/held.yml": undefined, ...project(namespace, {}) });
    const pruned = await gitops(world, ["prune", ...name]);
    expect(pruned, pruned.stderr).toMatchObject({ code: 0 });
    expect(pruned.stdout).toContain(`Deleted objects:\n  ${namespace}/ConfigMap/held`);
    expect((await cluster.find("v1", "ConfigMap", "held"))?.metadata?.deletionTimestamp).toBeDefined();
    expect((await shop.get())?.status).toMatchObject({
      observedCommit: suspended.status?.["observedCommit"], // the new commit is not deployed
      lastObjectsHash: suspended.status?.["lastObjectsHash"],
      lastDeployResult: { commandInfo: { command: "prune" }, deletedObjects: 1 },
    });
    await cluster.patch({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "held", finalizers: null as never } });

    await cluster.delete({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "shop" } });
    const invalid = await gitops(world, ["validate", ...name]);
    expect(invalid).toMatchObject({ code: 1, stderr: expect.stringContaining("Validation failed") as string });
    expect(invalid.stdout).toContain("object not found");
    const deployed = await gitops(world, ["deploy", ...name]);
    expect(deployed.stdout).toContain("New objects:");
    const valid = await gitops(world, ["validate", ...name]);
    expect(valid).toMatchObject({ code: 0, stderr: expect.stringContaining("Validation succeeded") as string });
    expect(readyOf((await shop.get()) as TestResource)).toMatchObject({ status: "True" });

    const logs = await gitops(world, ["logs", ...name, "--log-since", "1h", "--reconcile-id", reconcileId]);
    expect(logs.stdout).toContain("deployed\n");
    expect(logs.stdout).not.toContain("validated\n");
  }

  /** Requests by label, and from a clone of the project. */
  async function selections(): Promise<void> {
    const both = await gitops(world, ["deploy", "-l", "team=a", "-a", "color=blue"]);
    expect(both, both.stderr).toMatchObject({ code: 0 });
    for (const deployment of [one, two]) {
      const resource = (await deployment.get()) as TestResource;
      expect(answerOf(resource, "deploy")).toMatchObject({ request: { overridesPatch: { spec: { args: {} } } } });
    }
    const clone = join(world.dir, "clone");
    await promisify(execFile)("git", ["clone", "-q", team.url, clone]);
    await two.patch({ spec: { source: { git: { path: "elsewhere" } } } });
    const aborted = await gitops(world, ["reconcile"], { cwd: clone });
    expect(aborted).toMatchObject({ code: 1, stderr: expect.stringContaining("aborted") as string });
    const found = await gitops(world, ["reconcile"], { cwd: clone, typed: "y\n" });
    expect(found, found.stderr).toMatchObject({ code: 0 });
    expect(found.stderr).toContain(`Auto-detected ${namespace}/one`);
    expect(answerOf((await one.get()) as TestResource, "reconcile")).toMatchObject({
      endTime: expect.any(String) as unknown,
    });
    await two.until("its failure", (now) => conditionOf(now, "Ready")?.status === "False");
    const broken = await gitops(world, ["reconcile", "--name", "two"]);
    expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining("elsewhere") as string });
  }

  await Promise.all([commands(), selections()]);
});
