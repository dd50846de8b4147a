/** Previews of pull requests on a real Gitea, against a real cluster. */
import type { KubernetesObject, V1Job } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { annotation } from "../../src/model.ts";
import { aProject, aSpec } from "../support/project.ts";
import { deployShop, type PullRequests, usePullRequests } from "../support/pull-requests.ts";
import { patience } from "../support/patience.ts";
import { sendPush } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

test("a pull request shows the effect of merging it, its next commit updates the comment, and merging deploys", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  const before = await deployment.settles();
  const told = async () => (await deployment.events()).map(({ reason, count }) => [reason, count]);
  await expect.poll(told, patience).toEqual([["ReconciliationSucceeded", 1]]); // events are written asynchronously

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  const first = await pull.comment("merging changes");
  expect(first).toMatch(/data\.color:\n- +red\n\+ +blue/);
  const [comment] = await pull.comments();
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toEqual({
      [`towline/${deployment.key}`]: "success: 1 changed",
      towline: "success: changes 1 deployment: 1 object changed",
    });

  // The deployment itself is not changed.
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  const { status, metadata } = (await deployment.get()) ?? {};
  expect([status, metadata?.resourceVersion]).toEqual([before.status, before.metadata?.resourceVersion]);
  expect(await told()).toEqual([["ReconciliationSucceeded", 1]]);

  const head = await pull.push(aProject({ namespace, data: { color: "green" } }));
  await pull.comment("green");
  expect((await pull.comments()).map(({ id }) => id)).toEqual([comment?.id]);
  await expect.poll(() => pulls.statuses(head), patience).toMatchObject({ towline: expect.stringMatching("success") });

  await pull.merge();
  await pull.comment("Towline: merged into");
  await expect.poll(() => world.cluster.data("settings"), patience).toEqual({ color: "green" });
  const merge = (await deployment.settles()).status?.["observedCommit"] as string;
  await expect
    .poll(() => pulls.statuses(merge), patience)
    .toEqual({
      [`towline/${deployment.key}`]: "success: deployed: 1 changed",
      towline: "success: deployed: 1 changed",
    });
  const record = await pull.comment("✅ `deployed: 1 changed`");
  expect(record).toContain(`**Rollout of \`${merge.slice(0, 7)}\`**`);
  expect(record).toMatch(/Result of the last preview[^]*green/);

  await showsChildren(world, pulls);
});

/** A deployment whose project contains deployments of the same repository. */
async function showsChildren({ cluster }: TestWorld, pulls: PullRequests) {
  const { namespace } = cluster;
  const { repo } = pulls;
  const team = aProject({ namespace, name: "{{ args.name }}", discriminator: `${namespace}-{{ args.name }}` });
  const inTeam = Object.fromEntries(Object.entries(team).map(([file, content]) => [`team/${file}`, content]));
  const git = { url: repo.url, ref: { branch: "main" }, path: "team" };
  const child = (name: string, args: Record<string, string>) => ({
    apiVersion: "gitops.kluctl.io/v1beta1",
    kind: "KluctlDeployment",
    metadata: { name, namespace },
    spec: aSpec(repo.url, { source: { git }, args, delete: true }),
  });
  const root = (children: readonly object[]) => ({
    "root/.kluctl.yaml": stringify({ discriminator: `${namespace}-root`, targets: [{ name: "prod" }] }),
    "root/deployment.yaml": stringify({ deployments: [{ path: "children" }] }),
    "root/children/all.yml": children.map((one) => stringify(one)).join("---\n"),
  });
  await repo.git("fetch", "--quiet", "origin", "main");
  await repo.git("checkout", "--quiet", "-B", "main", "FETCH_HEAD");
  await repo.push({ ...inTeam, ...root([child("kept", { name: "one" }), child("gone", { name: "two" })]) });
  const source = { git: { ...git, path: "root" } };
  await cluster.deployment("root").create(aSpec(repo.url, { source, prune: true }));
  await cluster.deployment("gone").reaches("Ready");
  await cluster.deployment("kept").reaches("Ready");

  const pull = await pulls.open(root([child("kept", { name: "renamed" }), child("added", { name: "three" })]));
  const comment = await pull.comment("/root`: 1 new, 1 orphan");
  const title = "Child deployments, rendered without the cluster: 1 new, 1 changed, 1 deleted";
  expect(comment).toContain(title);
  const [, section = ""] = comment.split(title);
  expect(section).toMatch(/\*\*new\*\* `[^`]*\/added` in `[^`]*\/root`: 1 new[^]*new\*\* ConfigMap `[^`]*\/three`/);
  expect(section).toMatch(/\*\*changed\*\* `[^`]*\/kept`[^]*new\*\* ConfigMap `[^`]*\/renamed`/);
  expect(section).toMatch(/\*\*deleted\*\* `[^`]*\/gone`[^]*deleted\*\* ConfigMap `[^`]*\/two`/);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: "success: changes 1 of 2 deployments: 1 object changed, 1 new, 1 deleted" });
}

test("a pull request in a library shows what merging changes in a deployment that includes it and may be shown", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const library = await usePullRequests(world);
  const consumer = await library.gitea.repo("consumer");
  await library.repo.push(aProject({ namespace, name: "shared" }));
  const including = { deployments: [{ path: "app" }, { git: { url: library.repo.url, ref: { branch: "main" } } }] };
  const own = { ...aProject({ namespace, name: "own" }), "deployment.yaml": stringify(including) };
  await consumer.push(own);
  const [shown, hidden] = [cluster.deployment("shown"), cluster.deployment("hidden")];
  const spec = aSpec(consumer.url, { interval: "24h" });
  await shown.create(spec, { [annotation.previewIn]: library.repo.url });
  await hidden.create({ ...spec, suspend: true }, { [annotation.includes]: `${library.repo.url} refs/heads/main` });
  await shown.reaches("Ready");

  const pull = await library.open(aProject({ namespace, name: "shared", data: { color: "blue" } }));
  const comment = await pull.comment("merging changes 1 deployment: 1 object changed");
  expect(comment).toContain(`1 deployment includes this repository.`);
  expect(comment).toMatch(/\/shared`[^]*data\.color:\n- +red\n\+ +blue/);
  expect(comment).not.toContain(hidden.key);
  expect(await cluster.data("shared")).toEqual({ color: "red" });
  await expect
    .poll(() => library.statuses(pull.head), patience)
    .toEqual({
      [`towline/${shown.key}`]: "success: 1 changed",
      towline: "success: changes 1 deployment: 1 object changed",
    });

  // The consumer's own next deploy is not the pull request's doing.
  const larger = aProject({ namespace, name: "own", data: { size: "large" } });
  const after = await consumer.push({ ...larger, "deployment.yaml": own["deployment.yaml"] });
  await sendPush(library.towline.webhooksUrl, { repo: consumer.url, after });
  await expect.poll(() => cluster.data("own"), patience).toEqual({ size: "large" });
  await pull.push(aProject({ namespace, name: "shared", data: { color: "{{ nobody.knows.it }}" } }));
  expect(await pull.comment("would fail")).toContain("nobody");
  await pull.push(aProject({ namespace, name: "shared", data: { color: "green" } }));
  expect(await pull.comment("green")).toContain("merging changes 1 deployment: 1 object changed");

  await pull.merge();
  await pull.comment("Towline: merged into");
  await expect.poll(() => cluster.data("shared"), patience).toEqual({ color: "green" });
  expect((await shown.settles()).status?.["observedCommit"]).toBe(after);
  const record = await pull.comment("✅ `deployed` ");
  expect(record).toContain(`| \`${shown.key}\` |`);
  expect(record).not.toContain(hidden.key);
});

test("after a merge whose rollout fails, the comment says so", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  const deployment = await deployShop(world, pulls);
  const pull = await pulls.open(aProject({ namespace, data: { color: "{{ nobody.knows.it }}" } }));
  await pull.comment("would fail");
  await pull.merge();
  await pull.comment("❌ `cannot be rendered:");
  await pulls.repo.git("fetch", "--quiet", "origin", "main");
  await pulls.repo.git("checkout", "--quiet", "-B", "main", "FETCH_HEAD");
  await pulls.repo.push(aProject({ namespace, data: { color: "blue" } }));
  await deployment.reaches("Ready");
  expect(await pull.comments()).toHaveLength(1);
});

test("a conflict and its resolution are reported, a retargeted pull request is compared with its new base, and closing ends the preview", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace }));
  await pulls.repo.push({}, { branch: "release" });
  await world.cluster.deployment("main").create(aSpec(pulls.repo.url));
  await world.cluster.deployment("main").settles();

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  await pull.comment("merging changes");
  await pulls.repo.push(aProject({ namespace, data: { color: "yellow" } }));
  const conflict = await pull.comment("cannot be merged");
  expect(conflict).toContain("app/settings.yml");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({
      towline: "failure: cannot be merged: conflict in 1 file",
    });

  await pulls.repo.push(aProject({ namespace }));
  await pull.comment("merging changes 1 deployment");

  await pull.edit({ base: "release" });
  await pull.comment("affects no deployment");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({
      towline: "success: no deployment is affected",
    });

  await pull.edit({ base: "main" });
  await pull.comment("merging changes 1 deployment");
  await pull.edit({ state: "closed" });
  await pull.comment("closed without merging");
  await pull.edit({ state: "open" });
  await pull.comment("merging changes 1 deployment");
});

test("followers of the base branch are previewed, even if suspended; pinned, opted-out and unaffected deployments are not", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world);
  const files = (color: string, directory: string) =>
    Object.fromEntries(
      Object.entries(aProject({ namespace, name: `{{ args.name }}`, data: { color } })).map(([path, text]) => [
        `${directory}/${path}`,
        text,
      ]),
    );
  const first = await pulls.repo.push({ ...files("red", "a"), ...files("red", "b") });
  const url = pulls.repo.url;
  const spec = (name: string, path: string, more: object = {}) =>
    aSpec(url, { source: { git: { url, ref: { branch: "main" }, path } }, args: { name }, ...more });
  const create = async (name: string, ...args: Parameters<ReturnType<typeof cluster.deployment>["create"]>) => {
    await cluster.deployment(name).create(...args);
    await cluster.deployment(name).settles();
  };
  await create("followed", spec("followed", "a"));
  await create("suspended", spec("suspended", "a", { suspend: true }));
  await create("approved", spec("approved", "a", { manual: true }));
  await create("elsewhere", spec("elsewhere", "b"));
  await create("silent", spec("silent", "a"), { "towline.dev/preview": "false" });
  await create("pinned", spec("pinned", "a", { source: { git: { url, ref: { commit: first }, path: "a" } } }));

  const pull = await pulls.open(files("blue", "a"));
  const comment = await pull.comment("took");

  const row = (name: string) => comment.split("\n").find((line) => line.includes(`${namespace}/${name}\``)) ?? "";
  expect(row("followed")).not.toBe("");
  expect(row("suspended")).toMatch(/suspended/);
  expect(row("approved")).toMatch(/approval/);
  for (const name of ["elsewhere", "silent", "pinned"]) expect(row(name)).toBe("");
});

test("a pull request that affects no deployment gets no comment, and its status says so", async () => {
  const world = await useWorld();
  const pulls = await usePullRequests(world);
  await pulls.repo.push({ README: "shop\n" });

  const pull = await pulls.open({ README: "the shop\n" });

  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toEqual({
      towline: "success: no deployment is affected",
    });
  expect(await pull.comments()).toEqual([]);
});

test("a render error is reported in kluctl's words, and the other deployments are compared", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  for (const [name, args] of [
    ["fine", { name: "fine", color: "x" }],
    ["broken", { name: "broken" }],
  ] as const) {
    await world.cluster.deployment(name).create(aSpec(pulls.repo.url, { args }));
    await world.cluster.deployment(name).settles();
  }

  const pull = await pulls.open(aProject({ namespace, name: "{{ args.name }}", data: { color: "{{ args.color }}" } }));
  const comment = await pull.comment("took");

  expect(comment).toContain("1 of 2 deployments cannot be rendered");
  expect(comment).toMatch(/settings\.yml.*'color'|'color'.*settings\.yml/s);
  expect(comment).toMatch(/- +red\n\+ +x/);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({
      [`towline/${namespace}/fine`]: "success: 1 changed",
      [`towline/${namespace}/broken`]: "failure: cannot be rendered",
      towline: expect.stringMatching("failure: "),
    });
});

test("previews and deploys do not wait for each other", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world, { TOWLINE_CONCURRENCY: "1" });
  const gate = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: "gate", namespace, annotations: { "kluctl.io/hook": "pre-deploy" } },
    spec: {
      suspend: true,
      template: { spec: { containers: [{ name: "gate", image: "gate" }], restartPolicy: "Never" } },
    },
  };
  await pulls.repo.push(aProject({ namespace }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const deploying = await pulls.repo.push(
    aProject({ namespace, data: { color: "slow" }, objects: { "gate.yml": gate } }),
  );
  await expect.poll(() => cluster.find<KubernetesObject & V1Job>("batch/v1", "Job", "gate"), patience).toBeDefined();

  const pull = await pulls.open({
    "app/settings.yml": aProject({ namespace, data: { color: "blue" } })["app/settings.yml"],
  });
  await pull.comment("blue");
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  await expect
    .poll(() => pulls.statuses(deploying), patience)
    .toMatchObject({ [`towline/${deployment.key}`]: "pending: being deployed" });

  await cluster.patch({ ...gate, spec: { suspend: false } } as object);
  await deployment.settles(deploying);
  expect(await cluster.data("settings")).toEqual({ color: "slow" });
  await expect
    .poll(() => pulls.statuses(deploying), patience)
    .toMatchObject({
      [`towline/${deployment.key}`]: expect.stringMatching("success: deployed"),
    });
});

test("proposing a broken pull request's commit again does not make its check pass", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace }));
  await pulls.repo.push({}, { branch: "docs" });
  await world.cluster.deployment("shop").create(aSpec(pulls.repo.url));
  await world.cluster.deployment("shop").settles();
  const broken = await pulls.open(aProject({ namespace, data: { color: "{{ no.such.thing }}" } }));
  await broken.comment("cannot be rendered");
  const sum = async () => (await pulls.statuses(broken.head))["towline"];
  await expect.poll(sum, patience).toBe("failure: would fail: 1 deployment cannot be rendered");

  type Pull = { number: number };
  const again = { title: "Again", head: broken.branch, base: "docs" };
  const { number } = await pulls.gitea.call<Pull>("POST", `${pulls.path}/pulls`, again);
  const told = () =>
    pulls.towline.lines.filter(
      ({ msg, pullRequest }) => msg === "reported" && String(pullRequest).endsWith(`#${number}`),
    );
  await expect.poll(() => told().length, patience).toBeGreaterThan(0);
  expect(await sum()).toMatch(/^failure: /);

  const before = told().length;
  await pulls.gitea.call("PATCH", `${pulls.path}/pulls/${number}`, { state: "closed" });
  await expect.poll(() => told().length, patience).toBeGreaterThan(before);
  expect(await sum()).toMatch(/^failure: /);
});
