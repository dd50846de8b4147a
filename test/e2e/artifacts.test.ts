/**
 * Artifacts of a real registry as sources, and private includes of a project: who may read them, and what is reported.
 */
import { stringify } from "yaml";
import { expect, test } from "vitest";
import { useGiteaRegistry, useHelmRepository } from "../support/artifacts.ts";
import { aProject } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { useGitea, useGitServer, useWorld } from "../support/world.ts";
import { annotation } from "../../src/model.ts";
import { conditionOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const wrong = "wrong-canary-9f2c71";

function aSecret(name: string, stringData: Record<string, string>) {
  return { apiVersion: "v1", kind: "Secret", metadata: { name }, stringData };
}

function aSpec(source: object, more: object = {}): object {
  return { interval: "1h", source, target: "prod", context: "default", validate: false, timeout: "2m", ...more };
}

function failureOf(resource: TestResource) {
  const { status, reason } = conditionOf(resource, "Ready") ?? {};
  return { status, reason, error: String(resource.status?.["lastPrepareError"] ?? "") };
}

test("a tag, a digest, no tag and a directory each deploy what they name, and a moved tag is deployed", async () => {
  const world = await useWorld();
  const registry = await useGiteaRegistry(world, await useGitea());
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const project = (revision: string) => aProject({ namespace, name: "{{ args.name }}", data: { revision } });
  const url = registry.url(registry.open, "shop");
  const first = await repo.push(project("first"));
  const digest = await registry.push(url, "v1", repo.dir);
  const below = Object.entries(project("below")).map(([path, content]) => [`teams/shop/${path}`, content]);
  const second = await repo.push({ ...project("second"), ...Object.fromEntries(below) });
  await registry.push(url, "latest", repo.dir);

  const wanted: [name: string, source: object, revision: string, commit: string][] = [
    ["tag", { ref: { tag: "v1" } }, "first", first],
    ["digest", { ref: { digest, tag: "latest" } }, "first", first],
    ["untagged", {}, "second", second],
    ["directory", { path: "./teams/shop/" }, "below", second],
  ];
  const create = ([name, source]: (typeof wanted)[number]) =>
    cluster.deployment(name).create(aSpec({ oci: { url, ...source } }, { args: { name } }));
  const towline = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  await Promise.all(wanted.map(create));
  for (const [name, , revision, commit] of wanted) {
    const { status } = await cluster.deployment(name).reaches("Ready");
    expect(status, name).toMatchObject({ observedCommit: commit });
    expect(await cluster.data(name), name).toEqual({ revision });
  }
  const { status } = (await cluster.deployment("directory").get()) as TestResource;
  // As kluctl's own controller reports it for an artifact.
  expect(status).toMatchObject({
    projectKey: { repoKey: url, subDir: "teams/shop" },
    lastDeployResult: { gitInfo: { commit: "", dirty: false, ref: { branch: "main" }, subDir: "" } },
  });

  // No webhook reports that a tag moved.
  const third = await repo.push(project("third"));
  await registry.push(url, "latest", repo.dir);
  await cluster.deployment("untagged").settles(third);
  expect(await cluster.data("untagged")).toEqual({ revision: "third" });
  expect(towline.lines).toContainEqual(expect.objectContaining({ msg: "found a moved tag" }));
  expect((await cluster.deployment("tag").get())?.status).toMatchObject({ observedCommit: first });
});

test("a private artifact is read with its Secret, and a wrong password is reported without being shown", async () => {
  const world = await useWorld();
  const registry = await useGiteaRegistry(world, await useGitea());
  const { cluster } = world;
  const repo = await world.repo("private");
  const commit = await repo.push(aProject({ namespace: cluster.namespace }));
  const url = registry.url(registry.closed, "shop");
  await registry.push(url, "latest", repo.dir);
  const towline = await useTowline(world);
  await cluster.create(aSecret("login", { ...registry.login, password: wrong }));
  const oci = [
    { registry: "other.example.com", secretRef: { name: "login" } },
    { registry: registry.host, repository: `${registry.closed}/*`, secretRef: { name: "login" } },
  ];
  const [anonymous, missing, deployment] = ["anonymous", "missing", "private"].map((name) => cluster.deployment(name));
  await anonymous!.create(aSpec({ oci: { url } }));
  await missing!.create(
    aSpec({ oci: { url } }, { credentials: { oci: [{ ...oci[1], secretRef: { name: "gone" } }] } }),
  );
  await deployment!.create(aSpec({ oci: { url } }, { credentials: { oci }, retryInterval: "2s" }));

  const refused = await deployment!.settles();
  expect(failureOf(refused)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(failureOf(refused).error).toContain(
    `cannot read ${registry.host}/${registry.closed}/shop:latest: authentication failed: 401 Unauthorized`,
  );
  expect(failureOf(refused).error).toContain(`secret ${cluster.namespace}/login, user "${registry.login.username}"`);
  expect(failureOf(await anonymous!.settles()).error).toContain("(no login: no entry of spec.credentials.oci matches)");
  expect(failureOf(await missing!.settles()).error).toContain("failed to get secret 'gone'");
  await expect.poll(() => deployment!.events(), patience).not.toEqual([]);
  const told = JSON.stringify([refused, await deployment!.events(), towline.lines]);
  expect(told).not.toContain(wrong);

  await cluster.patch(aSecret("login", registry.login));
  const ready = await deployment!.settles(commit);
  expect(failureOf(ready)).toMatchObject({ status: "True", error: "" });
  expect(JSON.stringify([ready, await deployment!.events(), towline.lines])).not.toContain(registry.login.password);
});

test("a project includes a private repository, artifact and chart with the logins of its deployment", async () => {
  const world = await useWorld();
  const registry = await useGiteaRegistry(world, await useGitea());
  const { cluster } = world;
  const { namespace } = cluster;
  const gitLogin = { username: "ada", password: "git-horse-battery" };
  const git = await useGitServer(gitLogin);
  const helm = await useHelmRepository({ name: "from-helm", version: "0.1.0", namespace });
  await registry.pushChart(registry.closed, { name: "from-chart", version: "0.2.0", namespace });
  const library = await git.repo("library");
  const part = (name: string, from = name) => ({
    "deployment.yaml": "deployments: [{path: app}]\n",
    "app/it.yaml": stringify({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace },
      data: { from },
    }),
  });
  await library.push(part("from-git"));
  const artifact = registry.url(registry.closed, "library");
  const pushed = await world.repo("pushed");
  await pushed.push(part("from-oci"));
  await registry.push(artifact, "v1", pushed.dir);
  const chart = (repo: string, chartVersion: string, more: object) => ({
    repo,
    chartVersion,
    releaseName: "it",
    namespace,
    skipPrePull: true,
    ...more,
  });
  const repo = await git.repo("shop");
  await repo.push({
    ".kluctl.yaml": stringify({ discriminator: namespace, targets: [{ name: "prod" }] }),
    "deployment.yaml": stringify({
      deployments: [
        { git: { url: library.url } },
        { oci: { url: artifact, ref: { tag: "v1" } } },
        { path: "helm" },
        { path: "chart" },
      ],
    }),
    "helm/helm-chart.yaml": stringify({ helmChart: chart(helm.url, "0.1.0", { chartName: "from-helm" }) }),
    "chart/helm-chart.yaml": stringify({ helmChart: chart(registry.url(registry.closed, "from-chart"), "0.2.0", {}) }),
  });

  await cluster.create(aSecret("git", gitLogin));
  await cluster.create(aSecret("oci", { ...registry.login, plainHttp: "true" }));
  await cluster.create(aSecret("helm", { ...helm.login, ca: helm.ca }));
  await cluster.create(aSecret("wrong", { ...helm.login, password: wrong, ca: helm.ca }));
  await cluster.create(aSecret("no-ca", helm.login));
  const credentials = (helmSecret: string) => ({
    git: [{ host: new URL(git.url).host, secretRef: { name: "git" } }],
    oci: [{ registry: registry.host, repository: "**", secretRef: { name: "oci" } }],
    helm: [
      { host: helm.host, path: "other/*", secretRef: { name: "wrong" } },
      { host: helm.host, path: "stab*", secretRef: { name: helmSecret } },
      { host: helm.host, secretRef: { name: "wrong" } },
    ],
  });
  const towline = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  const source = { git: { url: repo.url } };
  const [right, refused, untrusted] = ["right", "refused", "untrusted"].map((name) => cluster.deployment(name));
  await refused!.create(aSpec(source, { credentials: credentials("wrong") }));
  await untrusted!.create(aSpec(source, { credentials: credentials("no-ca") }));
  const failures = [failureOf(await refused!.settles()), failureOf(await untrusted!.settles())];
  await right!.create(aSpec(source, { credentials: credentials("helm") }));
  await right!.reaches("Ready");

  for (const from of ["from-git", "from-oci", "from-helm", "from-chart"]) {
    expect(await cluster.data(from)).toEqual({ from });
  }
  const { metadata } = (await right!.get()) as TestResource;
  expect(metadata?.annotations?.[annotation.includes]).toContain(`${artifact} v1`);
  // Nothing says when the sweep has seen a tag for the first time, after which it notices each move.
  let moves = 0;
  await expect
    .poll(
      async () => {
        await pushed.push(part("from-oci", `move ${++moves}`));
        await registry.push(artifact, "v1", pushed.dir);
        return (await cluster.data("from-oci"))?.["from"];
      },
      { ...patience, interval: 6_000 },
    )
    .toMatch(/^move/);
  expect(failures.map(({ reason }) => reason)).toEqual(["PrepareFailed", "PrepareFailed"]);
  expect(failures[0]?.error).toContain("401 Unauthorized");
  expect(failures[1]?.error).toMatch(/certificate/);
  const told = JSON.stringify([
    await right!.get(),
    await refused!.get(),
    await right!.events(),
    await refused!.events(),
    towline.lines,
  ]);
  for (const secret of [wrong, gitLogin.password, registry.login.password, helm.login.password]) {
    expect(told).not.toContain(secret);
  }
});

test("a chart that is pulled by a short version is deployed again when that tag moves", async () => {
  const world = await useWorld();
  const registry = await useGiteaRegistry(world, await useGitea());
  const { cluster } = world;
  const { namespace } = cluster;
  let patch = 0;
  const publish = async () => {
    const chart = { name: "web", version: `1.2.${++patch}`, namespace, from: `patch ${patch}` };
    await registry.pushChart(registry.closed, chart, "1.2");
  };
  await publish();
  const url = registry.url(registry.closed, "web");
  const helmChart = { repo: url, chartVersion: "1.2", releaseName: "it", namespace, skipPrePull: true };
  const repo = await world.repo("shop");
  await repo.push({
    ".kluctl.yaml": stringify({ discriminator: namespace, targets: [{ name: "prod" }] }),
    "deployment.yaml": stringify({ deployments: [{ path: "chart" }] }),
    "chart/helm-chart.yaml": stringify({ helmChart }),
  });
  await cluster.create(aSecret("oci", { ...registry.login, plainHttp: "true" }));
  const oci = [{ registry: registry.host, repository: "**", secretRef: { name: "oci" } }];
  await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  const deployment = cluster.deployment("web");
  await deployment.create(aSpec({ git: { url: repo.url } }, { credentials: { oci } }));
  await deployment.reaches("Ready");
  expect(await cluster.data("web")).toEqual({ from: "patch 1" });
  const { metadata } = (await deployment.get()) as TestResource;
  expect(metadata?.annotations?.[annotation.includes]).toBe(`${url} 1.2`);
  // As above: each move after the first look is noticed.
  await expect
    .poll(
      async () => {
        await publish();
        return (await cluster.data("web"))?.["from"];
      },
      { ...patience, interval: 6_000 },
    )
    .not.toBe("patch 1");
});
