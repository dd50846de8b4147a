/** The fields of a KluctlDeployment, and their effect in the cluster. */
import { type KubernetesObject, PatchStrategy, type V1Deployment } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { readyOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const configMap = (name: string, data: Record<string, string>, more: object = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
  ...more,
});

test("target, arguments, images and the selection of items determine what is deployed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const item = (name: string) =>
    stringify({
      ...configMap(`{{ args.name }}-${name}`, { item: name }),
      metadata: { name: `{{ args.name }}-${name}`, namespace },
    });
  await repo.push({
    ".kluctl.yaml": stringify({
      discriminator: `${namespace}-{{ args.name }}`,
      targets: [{ name: "prod" }, { name: "elsewhere", context: "some-other-cluster" }],
    }),
    "deployment.yaml": stringify({
      deployments: ["one", "two", "three"].map((path) => ({ path, tags: [`tag-${path}`] })),
    }),
    "one/item.yml": [
      item("one"),
      `  target: "{{ target.name }}"`,
      `  image: "{{ images.get_image('registry.example.com/shop') }}"`,
      `  values: '{{ args["values"] | to_json }}'`,
      "",
    ]
      .join("\n")
      .replaceAll("\n\n", "\n"),
    "two/item.yml": item("two"),
    "three/item.yml": item("three"),
  });
  await useTowline(world);
  const values = {
    number: 3,
    text: "3",
    yes: true,
    no: "no",
    file: "@/etc/passwd",
    list: [1, "1", { a: 0.5 }],
    nested: { empty: {} },
  };
  const images = [{ image: "registry.example.com/shop", resultImage: "registry.example.com/shop:v7" }];
  const spec = (name: string, more: object = {}) => aSpec(repo.url, { args: { name, values }, images, ...more });
  const variants: [name: string, more: object, items: string[]][] = [
    ["all", { targetNameOverride: "renamed", validate: true }, ["one", "three", "two"]],
    ["tags", { includeTags: ["tag-one", "tag-two"] }, ["one", "two"]],
    ["no-tags", { excludeTags: ["tag-one", "tag-two"] }, ["three"]],
    ["dirs", { includeDeploymentDirs: ["two"] }, ["two"]],
    ["no-dirs", { excludeDeploymentDirs: ["two"] }, ["one", "three"]],
    ["context", { target: "elsewhere", context: "default", includeTags: ["tag-one"] }, ["one"]],
  ];
  for (const [name, more] of variants) await cluster.deployment(name).create(spec(name, more));
  await cluster.deployment("astray").create(spec("astray", { target: "elsewhere" }));
  await cluster.deployment("nowhere").create(spec("nowhere", { target: "nowhere" }));

  for (const [name, , items] of variants) {
    await cluster.deployment(name).reaches("Ready");
    const { items: found } = await cluster.core.listNamespacedConfigMap({ namespace });
    const mine = found
      .flatMap(({ metadata }) => metadata?.name ?? [])
      .filter((other) => other.replace(/-\w+$/, "") === name);
    expect(mine.sort(), name).toEqual(items.map((one) => `${name}-${one}`));
  }
  const { values: seen, ...rest } = (await cluster.data("all-one")) ?? {};
  expect(JSON.parse(seen ?? "")).toEqual(values);
  expect(rest).toEqual({ item: "one", target: "renamed", image: "registry.example.com/shop:v7" });
  expect(await cluster.data("context-one")).toMatchObject({ target: "elsewhere" });
  expect((await cluster.deployment("all").get())?.status).toMatchObject({
    targetKey: { targetName: "renamed", discriminator: `${namespace}-all` },
  });

  const astray = await cluster.deployment("astray").settles();
  expect(readyOf(astray)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(astray.status?.["lastPrepareError"]).toContain("some-other-cluster");
  const nowhere = await cluster.deployment("nowhere").settles();
  expect(nowhere.status?.["lastPrepareError"]).toMatch(/target nowhere/);
});

test("objects removed from git are orphans until pruning is requested", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const extra = { ...configMap("extra", { a: "b" }), metadata: { name: "extra", namespace } };
  await repo.push(aProject({ namespace, objects: { "extra.yml": extra } }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { delete: true }));
  await deployment.reaches("Ready");
  expect(await cluster.data("extra")).toEqual({ a: "b" });

  const without = await repo.push({ "app/extra.yml": undefined });
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: without });
  const orphaned = await deployment.settles(without);
  expect(orphaned.status).toMatchObject({ lastDriftDetectionResultMessage: "1 orp" });
  expect(await cluster.data("extra")).toEqual({ a: "b" });

  await deployment.patch({ spec: { prune: true } });
  const pruned = await deployment.settles();
  expect(await cluster.data("extra")).toBeUndefined();
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  expect(pruned.status).toMatchObject({ lastDriftDetectionResultMessage: "no drift" });
  expect(readyOf(pruned)).toMatchObject({ status: "True", message: "deploy succeeded. 1 deleted objects." });

  // A project that cannot be rendered prunes nothing.
  const broken = await repo.push({ "deployment.yaml": "deployments:\n  - path: '{{ nothing.at.all }}'\n" });
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: broken });
  const failed = await deployment.settles(broken);
  expect(readyOf(failed)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(failed.status?.["lastPrepareError"]).toContain("nothing");
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  await deployment.delete();
  await expect.poll(() => deployment.get(), patience).toBeUndefined();
  expect(await cluster.data("settings")).toBeUndefined();
});

test("without spec.delete, objects stay when their deployment is deleted", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: cluster.namespace, name: "{{ args.name }}" }));
  await useTowline(world);
  const kept = cluster.deployment("kept");
  const suspended = cluster.deployment("suspended");
  await kept.create(aSpec(repo.url, { args: { name: "kept" }, prune: true }));
  await suspended.create(aSpec(repo.url, { args: { name: "suspended" }, delete: true }));
  await kept.reaches("Ready");
  await suspended.reaches("Ready");
  await suspended.patch({ spec: { suspend: true } });
  await kept.delete();
  await suspended.delete();
  await expect.poll(() => kept.get(), patience).toBeUndefined();
  await expect.poll(() => suspended.get(), patience).toBeUndefined();
  expect(await cluster.data("kept")).toEqual({ color: "red" });
  expect(await cluster.data("suspended")).toEqual({ color: "red" });
});

test("a dry run writes nothing and shows what it would do", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: cluster.namespace, name: "{{ args.name }}" }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { args: { name: "shop" }, dryRun: true }));
  const { status } = await deployment.reaches("Ready");
  expect(await cluster.data("shop")).toBeUndefined();
  expect(status).toMatchObject({
    lastDriftDetectionResultMessage: "1 new",
    lastDeployResult: { commandInfo: { dryRun: true }, newObjects: 1 },
  });
  await deployment.patch({ spec: { dryRun: false } });
  await deployment.settles();
  expect(await cluster.data("shop")).toEqual({ color: "red" });
  await towline.stop();

  await useTowline(world, { TOWLINE_DRY_RUN: "true" });
  await cluster.deployment("other").create(aSpec(repo.url, { args: { name: "other" } }));
  await cluster.deployment("other").reaches("Ready");
  expect(await cluster.data("other")).toBeUndefined();
});

test("a suspended deployment is not deployed until it is resumed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const towline = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  await deployment.patch({ spec: { suspend: true } });
  await deployment.settles();

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(towline.webhooksUrl, { repo: repo.url, after: second });
  expect(await answer.json()).toMatchObject({
    matched: 0,
    ignored: [{ deployment: deployment.key, reason: "suspended" }],
  });
  // A changed spec would be deployed if it were not suspended; the settled status shows that the change was reconciled.
  await deployment.patch({ spec: { prune: true } });
  const settled = await deployment.settles();
  expect(settled.status).toMatchObject({ observedCommit: first });
  expect(readyOf(settled)).toMatchObject({ status: "True" });
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  await deployment.patch({ spec: { suspend: false } });
  await deployment.settles(second);
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
});

test("with manual approval, exactly the approved objects are deployed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { manual: true }));

  const waiting = await deployment.settles();
  const hash = String(waiting.status?.["lastObjectsHash"]);
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(waiting.status).toMatchObject({
    lastDriftDetectionResultMessage: "1 new",
    lastDriftDetectionResult: { renderedObjectsHash: hash, objects: [{ new: true }] },
  });
  expect(readyOf(waiting)).toMatchObject({ status: "False", message: "deployment status unknown" });
  expect(await cluster.data("settings")).toBeUndefined();
  await expect
    .poll(async () => (await deployment.events()).map(({ reason, message }) => [reason, message]), patience)
    .toContainEqual(["WaitingForApproval", expect.stringContaining(hash) as unknown]);

  await deployment.patch({ spec: { manualObjectsHash: hash } });
  await deployment.reaches("Ready");
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: second });
  const changed = await deployment.settles(second);
  expect(changed.status).toMatchObject({ lastDriftDetectionResultMessage: "1 chg" });
  expect(changed.status?.["lastObjectsHash"]).not.toBe(hash);
  expect(await cluster.data("settings")).toEqual({ color: "red" });

  await deployment.patch({ spec: { manualObjectsHash: changed.status?.["lastObjectsHash"] } });
  const approved = await deployment.settles();
  expect(approved.status).toMatchObject({ lastDriftDetectionResultMessage: "no drift" });
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
});

test("poking images changes images and nothing else", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  const web = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: "web" } },
      template: {
        metadata: { labels: { app: "web" } },
        spec: { containers: [{ name: "web", image: "{{ images.get_image('shop') }}" }] },
      },
    },
  };
  await repo.push(aProject({ namespace, objects: { "web.yml": web } }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  const images = (version: string) => [{ image: "shop", resultImage: `shop:${version}` }];
  await deployment.create(aSpec(repo.url, { images: images("v1") }));
  await deployment.reaches("Ready");
  const image = async () =>
    (await cluster.find<KubernetesObject & V1Deployment>("apps/v1", "Deployment", "web"))?.spec?.template.spec
      ?.containers[0]?.image;
  expect(await image()).toBe("shop:v1");

  await deployment.patch({ spec: { deployMode: "poke-images" } });
  await deployment.settles();
  const second = await repo.push({ ...aProject({ namespace, data: { color: "blue" }, objects: { "web.yml": web } }) });
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: second });
  await deployment.settles(second);
  await deployment.patch({ spec: { images: images("v2") } });
  const poked = await deployment.settles();
  expect(await image()).toBe("shop:v2");
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  expect(poked.status).toMatchObject({
    lastDriftDetectionResultMessage: "1 chg",
    lastDeployResult: { commandInfo: { command: "poke-images" } },
  });
});

test("the fields for force, replacement and abort on errors take effect", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  await cluster.objects.patch(
    { ...configMap("claimed", { color: "theirs" }), metadata: { name: "claimed", namespace } },
    undefined,
    undefined,
    "somebody-else",
    true,
    PatchStrategy.ServerSideApply,
  );
  const named = (name: string) => ({ name, namespace });
  const claimed = await world.repo("claimed");
  await claimed.push(aProject({ namespace, name: "claimed", data: { color: "ours" } }));
  const fixed = await world.repo("fixed");
  const immutable = (color: string) => ({
    ...configMap("fixed", { color }, { immutable: true }),
    metadata: named("fixed"),
  });
  await fixed.push(aProject({ namespace, name: "beside-fixed", objects: { "fixed.yml": immutable("red") } }));
  const ordered = await world.repo("ordered");
  await ordered.push({
    ".kluctl.yaml": stringify({ discriminator: `${namespace}-ordered-{{ args.name }}` }),
    "deployment.yaml": stringify({ deployments: [{ path: "first" }, { barrier: true }, { path: "second" }] }),
    "first/service.yml": stringify({
      apiVersion: "v1",
      kind: "Service",
      metadata: named("bad"),
      spec: { ports: [{ port: 0 }] },
    }),
    "second/later.yml": stringify({ ...configMap("", { a: "b" }), metadata: named("{{ args.name }}") }),
  });
  const towline = await useTowline(world);
  const theirs = cluster.deployment("claimed");
  await theirs.create(aSpec(claimed.url));
  const stuck = cluster.deployment("fixed");
  await stuck.create(aSpec(fixed.url));
  const aborting = cluster.deployment("aborting");
  await aborting.create(aSpec(ordered.url, { target: undefined, args: { name: "aborting" }, abortOnError: true }));
  const going = cluster.deployment("going");
  await going.create(aSpec(ordered.url, { target: undefined, args: { name: "going" } }));

  const warned = await theirs.reaches("Ready");
  expect(readyOf(warned).message).toMatch(/^deploy succeeded with 1 warnings\./);
  expect(await cluster.data("claimed")).toEqual({ color: "theirs" });
  await theirs.patch({ spec: { forceApply: true } });
  await theirs.settles();
  expect(await cluster.data("claimed")).toEqual({ color: "ours" });

  await stuck.reaches("Ready");
  const second = await fixed.push({ "app/fixed.yml": stringify(immutable("blue")) });
  await sendPush(towline.webhooksUrl, { repo: fixed.url, after: second });
  const refused = await stuck.settles(second);
  expect(readyOf(refused)).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(readyOf(refused).message).toMatch(/^deploy failed with 1 errors\./);
  expect(JSON.stringify(refused.status?.["lastDeployResult"])).toContain("immutable");
  await stuck.patch({ spec: { forceReplaceOnError: true } });
  await stuck.settles();
  expect(await cluster.data("fixed")).toEqual({ color: "blue" });

  expect(readyOf(await aborting.settles())).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(readyOf(await going.settles())).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(await cluster.data("aborting")).toBeUndefined();
  expect(await cluster.data("going")).toEqual({ a: "b" });
});

test("all errors of an invalid resource are reported, other deployments are not affected, and it works once corrected", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: cluster.namespace, name: "{{ args.name }}" }));
  await useTowline(world);
  const wrong = cluster.deployment("wrong");
  await wrong.create({
    interval: "0s",
    retryInterval: "0s",
    timeout: "0s",
    deployInterval: "5m and then some",
    validateInterval: "1h or so",
    source: { git: { url: "file:///etc", ref: { branch: "--upload-pack=x", tag: "v1" }, path: "../../etc" } },
    credentials: { git: [{ secretRef: { name: "" } }] },
    decryption: { provider: "sops", secretRef: { name: "" } },
    kubeConfig: {},
    serviceAccountName: " ",
    helmCredentials: [{}],
    sourceOverrides: [{ repoKey: "a", url: "b" }],
  });
  const right = cluster.deployment("right");
  await right.create(aSpec(repo.url, { args: { name: "right" } }));

  const told = await wrong.settles();
  expect(readyOf(told)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  const fields = [
    "interval",
    "retryInterval",
    "timeout",
    "deployInterval",
    "validateInterval",
    "source.git.url",
    "source.git.ref",
    "source.git.path",
    "credentials.git.0.secretRef.name",
    "decryption",
    "kubeConfig",
    "serviceAccountName",
    "helmCredentials",
    "sourceOverrides",
  ];
  const problem = String(told.status?.["lastPrepareError"]).split("\n");
  for (const field of fields) {
    expect(problem, field).toContainEqual(
      expect.stringMatching(new RegExp(`^spec\\.${field.replaceAll(".", "\\.")}\\b`)),
    );
  }
  await right.reaches("Ready");
  expect(await cluster.data("right")).toEqual({ color: "red" });

  const gone = Object.fromEntries(
    ["retryInterval", "timeout", "deployInterval", "validateInterval", "credentials", "decryption", "kubeConfig"]
      .concat(["serviceAccountName", "helmCredentials", "sourceOverrides"])
      .map((field) => [field, null]),
  );
  const git = { url: repo.url, ref: { branch: "main", tag: null }, path: "" };
  await wrong.patch({
    spec: { ...aSpec(repo.url), ...gone, timeout: "1m", source: { git }, args: { name: "mended" } },
  });
  const mended = await wrong.reaches("Ready");
  expect(mended.status?.["lastPrepareError"]).toBeUndefined();
  expect(await cluster.data("mended")).toEqual({ color: "red" });
  await wrong.delete();
  await expect.poll(() => wrong.get(), patience).toBeUndefined();
});
