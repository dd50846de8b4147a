/**
 * KluctlDeployments of flux.kluctl.io/v1alpha1 are served like any other, until one of the current API replaces them.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { runDoctor } from "../../src/app/doctor.ts";
import { parseConfig } from "../../src/config.ts";
import { annotation } from "../../src/model.ts";
import { useHelmRepository } from "../support/artifacts.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { gitRepository, installOlderApis, olderDeployment } from "../support/older-api.ts";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { environment, sendPush, type Towline, useTowline } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { readyOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const apiVersion = "flux.kluctl.io/v1alpha1";

/** A deployment of the legacy API, with helpers for its state. */
function older({ cluster }: TestWorld, name: string) {
  const get = () => cluster.find<TestResource>(apiVersion, "KluctlDeployment", name);
  return {
    get,
    async until(what: string, is: (resource: TestResource) => boolean): Promise<TestResource> {
      let resource: TestResource | undefined;
      const isSo = async () => (resource = await get()) !== undefined && is(resource);
      await expect
        .poll(isSo, patience)
        .toBe(true)
        .catch((cause: unknown) => {
          const seen = JSON.stringify(resource?.status, undefined, 2);
          throw new Error(`${name} did not reach ${what}: ${seen}`, { cause });
        });
      return resource as TestResource;
    },
    annotate: (annotations: Record<string, string>) =>
      cluster.patch({ apiVersion, kind: "KluctlDeployment", metadata: { name, annotations } }),
    delete: () => cluster.delete({ apiVersion, kind: "KluctlDeployment", metadata: { name } } as KubernetesObject),
  };
}

/** The real command line, for this test's namespace. */
function towline(world: TestWorld, ...args: string[]) {
  const env = { ...environment(world), PATH: process.env["PATH"] };
  return commandLine([...args, "-n", world.cluster.namespace], { env });
}

/** The doctor's findings about deployments. */
async function examineAll(world: TestWorld) {
  const config = parseConfig({ env: environment(world) });
  const signal = AbortSignal.timeout(120_000);
  const sections = await runDoctor({ config, env: process.env, compare: true, signal });
  return sections.find(({ title }) => title === "Deployments")?.findings;
}

const at = (commit: string) => (resource: TestResource) =>
  String(resource.status?.["lastAttemptedRevision"]).endsWith(commit) && readyOf(resource).status === "True";

test("the legacy API is served until a deployment of the current API takes over, and dependsOn is respected", async () => {
  const world = await useWorld();
  await installOlderApis(world.cluster.kubeconfig);
  const server = await useTowline(world);
  await Promise.all([servesAndGivesWay(world, server), deploysInOrder(world, server)]);
});

/**
 * A deployment follows its GitRepository, answers its annotations, and is no longer served once there is one of the
 * current API.
 */
async function servesAndGivesWay(world: TestWorld, server: Towline): Promise<void> {
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const deployment = older(world, "shop");
  const spec = {
    interval: "1h",
    deployInterval: "never",
    sourceRef: { kind: "GitRepository", name: "shop" },
    target: "prod",
    args: null,
    renameContexts: [{ oldContext: "default", newContext: "prod" }],
    validate: false,
    prune: true,
    delete: true,
  };
  await cluster.create(olderDeployment("shop", spec));
  await deployment.until("a missing GitRepository", (resource) =>
    /GitRepository \S+ does not exist/.test(readyOf(resource).message ?? ""),
  );
  await cluster.create(gitRepository("shop", { interval: "1m", url: repo.url, ref: { branch: "main" } }));

  const { status, metadata } = await deployment.until("its first deploy", at(first));
  expect(status).toMatchObject({
    lastAttemptedRevision: `refs/heads/main/${first}`,
    discriminator: `${namespace}-prod`,
    lastDeployResult: { target: "prod", error: "", objectsHash: expect.any(String) as unknown },
    observedGeneration: 1,
  });
  expect(status?.conditions).toMatchObject([{ type: "Ready", message: "deploy: ok, prune: ok" }]);
  expect(metadata?.finalizers).toEqual(["finalizers.flux.kluctl.io"]);
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(server.webhooksUrl, { repo: repo.url, after: second });
  expect(await answer.json()).toMatchObject({ matched: 1 });
  await deployment.until("the push", at(second));
  expect(await cluster.data("settings")).toEqual({ color: "blue" });

  await cluster.patch({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings" },
    data: { color: "grey" },
  } as KubernetesObject);
  const asked = await towline(world, "reconcile", "shop");
  expect(asked).toMatchObject({
    code: 0,
    out: `${namespace}/shop: ready at ${second.slice(0, 7)}. deploy: ok, prune: ok\n`,
  });
  const { metadata: after, status: answered } = (await deployment.get())!;
  expect(answered?.["lastHandledReconcileAt"]).toBe(after?.annotations?.["reconcile.fluxcd.io/requestedAt"]);
  expect(await cluster.data("settings")).toEqual({ color: "grey" });
  await deployment.annotate({ "deploy.flux.kluctl.io/requestedAt": "2" });
  await deployment.until("its deploy", (resource) => resource.status?.["lastHandledDeployAt"] === "2");
  expect(await cluster.data("settings")).toEqual({ color: "blue" });

  const said = await examineAll(world);
  expect(said).toContainEqual(
    expect.objectContaining({
      subject: `${namespace}/shop (flux.kluctl.io)`,
      level: "ok",
      message: expect.stringContaining("nothing would be deployed") as string,
    }),
  );

  expect((await towline(world, "get", "deployments")).out).toMatch(
    new RegExp(`shop \\(flux\\.kluctl\\.io\\) +True +${second.slice(0, 7)} `),
  );
  expect(JSON.parse((await towline(world, "get", "deployments", "shop", "-o", "json")).out)).toMatchObject([
    { name: "shop", apiVersion, commit: second, ready: "True" },
  ]);
  expect((await towline(world, "trace", second)).out).toContain(`${namespace}/shop: applied\n`);

  expect(await towline(world, "suspend", "shop")).toMatchObject({ code: 0 });
  expect((await deployment.get())?.spec["suspend"]).toBe(true);
  expect((await towline(world, "reconcile", "shop")).err).toContain(
    "the legacy API cannot reconcile a suspended deployment",
  );
  const settings = aProject({ namespace, data: { color: "green" } })["app/settings.yml"];
  await writeFile(join(repo.dir, "app/settings.yml"), settings ?? "");
  const preview = await towline(world, "preview", repo.dir, "--into", "main", "-o", "markdown");
  expect(preview).toMatchObject({ code: 0, out: expect.stringContaining("-  blue\n+  green") as unknown });
  expect(await towline(world, "resume", "shop")).toMatchObject({
    code: 0,
    out: expect.stringContaining(`${namespace}/shop: ready at ${second.slice(0, 7)}`) as unknown,
  });

  const withSource = (source: object | null) =>
    cluster.patch({
      ...{ apiVersion, kind: "KluctlDeployment", metadata: { name: "shop" }, spec: { source } },
    } as KubernetesObject);
  await withSource({ url: repo.url });
  const both = "spec: has both source and sourceRef; remove one of them";
  await deployment.until("two sources", (resource) => readyOf(resource).message === both);
  expect(await towline(world, "migrate")).toMatchObject({
    code: 2,
    out: expect.stringContaining(`# problem: ${both}`) as unknown,
  });
  await withSource(null);
  await deployment.until("one source again", at(second));

  const printed = await towline(world, "migrate");
  expect(printed).toMatchObject({ code: 0, out: expect.stringContaining("# changed: spec.sourceRef: ") as unknown });
  expect(await cluster.deployment("shop").get()).toBeUndefined();
  expect(await towline(world, "migrate", "--apply")).toMatchObject({
    code: 0,
    err: expect.stringContaining(`${namespace}/shop: created; it will be deployed once`) as unknown,
  });
  const taken = await cluster.deployment("shop").reaches("Ready");
  expect(parse(printed.out)).toMatchObject({ apiVersion: taken.apiVersion, spec: { source: taken.spec["source"] } });
  expect(taken.status).toMatchObject({
    observedCommit: second,
    lastDeployResult: { changedObjects: 0, newObjects: 0 },
  });
  await deployment.until("giving way", ({ status: now }) => now?.["readyForMigration"] === true);
  await deployment.delete();
  await expect.poll(() => deployment.get(), patience).toBeUndefined();
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
}

/** A deployment is deployed after its dependencies, and a cycle is reported. */
async function deploysInOrder(world: TestWorld, server: Towline): Promise<void> {
  const { cluster } = world;
  const { namespace } = cluster;
  const project = (color: string) =>
    aProject({ namespace, name: "{{ args.name }}", data: { color }, discriminator: `${namespace}-{{ args.name }}` });
  const repo = await world.repo("order");
  await repo.push(project("red"));
  const [app, db] = [cluster.deployment("app"), cluster.deployment("db")];
  const specOf = (name: string) => aSpec(repo.url, { args: { name } });
  await app.create(specOf("app"), { [annotation.dependsOn]: "db" });
  const waiting = await app.until("waiting", (resource) => readyOf(resource).reason === "DependencyNotReady");
  expect(readyOf(waiting).message).toBe(`waiting for ${namespace}/db (there is no such KluctlDeployment)`);
  await db.create(specOf("db"));
  await app.reaches("Ready");
  expect(await cluster.data("app")).toEqual({ color: "red" });

  const second = await repo.push(project("blue"));
  await sendPush(server.webhooksUrl, { repo: repo.url, after: second });
  const [appAfter, dbAfter] = await Promise.all([app.settles(second), db.settles(second)]);
  const began = ({ status }: TestResource, key: string) => {
    const result = status?.["lastDeployResult"] as { commandInfo: Record<string, string> } | undefined;
    return Date.parse(result?.commandInfo[key] ?? "");
  };
  expect(began(appAfter, "startTime")).toBeGreaterThanOrEqual(began(dbAfter, "endTime"));

  await db.patch({ metadata: { annotations: { [annotation.dependsOn]: "app" } } });
  const impossible = (resource: TestResource) => readyOf(resource).reason === "DependencyImpossible";
  const [circle] = await Promise.all([app.until("the circle", impossible), db.until("the circle", impossible)]);
  expect(readyOf(circle).message).toContain(`${namespace}/app → ${namespace}/db → ${namespace}/app`);
  await db.patch({ metadata: { annotations: { [annotation.dependsOn]: null } as unknown as Record<string, string> } });
  await app.reaches("Ready");
}

test("a preview of a legacy deployment logs in at Helm repositories like its deploys", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await installOlderApis(cluster.kubeconfig);
  const charts = await useHelmRepository({ name: "from-helm", version: "0.1.0", namespace });
  await cluster.create({
    ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "charts" } },
    stringData: { url: charts.url, ...charts.login, caFile: charts.ca },
  } as KubernetesObject);
  // The repository is on loopback, for which no program uses a proxy, and a confined preview reaches nothing but the
  // proxy.
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_ISOLATION: "off" });
  const helmChart = { repo: charts.url, chartName: "from-helm", chartVersion: "0.1.0", releaseName: "it", namespace };
  await pulls.repo.push({
    ...aProject({ namespace }),
    "deployment.yaml": stringify({ deployments: [{ path: "app" }, { path: "helm" }] }),
    "helm/helm-chart.yaml": stringify({ helmChart: { ...helmChart, skipPrePull: true } }),
  });
  const spec = {
    ...{ interval: "1h", deployInterval: "never", target: "prod", validate: false },
    source: { url: pulls.repo.url },
    renameContexts: [{ oldContext: "default", newContext: "prod" }],
    helmCredentials: [{ secretRef: { name: "charts" } }],
  };
  await cluster.create(olderDeployment("shop", spec));
  await older(world, "shop").until("its deploy", (resource) => readyOf(resource).status === "True");
  expect(await cluster.data("from-helm")).toEqual({ from: "from-helm" });

  const pull = await pulls.open({
    "app/settings.yml": aProject({ namespace, data: { color: "blue" } })["app/settings.yml"]!,
  });
  const comment = await pull.comment("merging changes 1 deployment");
  expect(comment).toMatch(/data\.color:\n- +red\n\+ +blue/);
  const local = await towline(world, "preview", pulls.repo.dir, "--into", "main", "-o", "markdown");
  expect(local).toMatchObject({ code: 0, out: expect.stringContaining("-  red\n+  blue") as unknown });
});
