/** Where projects come from: each kind of ref and path, and the errors if git cannot provide it. */
import { expect, test, vi } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { useGitServer, useWorld } from "../support/world.ts";
import { conditionOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

/** The two texts that users read if a deployment is not ready. */
function failureOf(resource: TestResource) {
  const { status, reason } = conditionOf(resource, "Ready") ?? {};
  return { status, reason, error: String(resource.status?.["lastPrepareError"] ?? "") };
}

test("a branch, a tag, a commit, the default branch and a directory each deploy what they name", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  const project = (revision: string) =>
    aProject({ namespace: cluster.namespace, name: "{{ args.name }}", data: { revision } });
  const tagged = await repo.push(project("tagged"));
  await repo.pushTag("light");
  await repo.git("tag", "-a", "annotated", "-m", "A tag with a message");
  await repo.git("push", "--quiet", "origin", "refs/tags/annotated");
  const pinned = await repo.push(project("pinned"));
  const below = Object.entries(project("below")).map(([path, content]) => [`teams/shop/${path}`, content]);
  const main = await repo.push({ ...project("main"), ...Object.fromEntries(below) });
  const feature = await repo.push(project("feature"), { branch: "feature/blue" });
  await useTowline(world);

  const wanted: [name: string, source: object, revision: string, commit: string][] = [
    ["default", {}, "main", main],
    ["branch", { ref: { branch: "feature/blue" } }, "feature", feature],
    ["light-tag", { ref: { tag: "light" } }, "tagged", tagged],
    ["annotated-tag", { ref: { tag: "annotated" } }, "tagged", tagged],
    ["commit", { ref: { commit: pinned } }, "pinned", pinned],
    ["directory", { path: "./teams/shop/" }, "below", main],
  ];
  for (const [name, source] of wanted) {
    await cluster
      .deployment(name)
      .create(aSpec(repo.url, { source: { git: { url: repo.url, ...source } }, args: { name } }));
  }
  for (const [name, source, revision, commit] of wanted) {
    const { status } = await cluster.deployment(name).reaches("Ready");
    expect(status, name).toMatchObject({ observedCommit: commit });
    expect(await cluster.data(name), name).toEqual({ revision });
    const { ref = {} } = source as { ref?: object };
    expect(status, name).toMatchObject({
      lastDeployResult: { gitInfo: { commit, ...(Object.keys(ref).length && { ref }) } },
    });
  }
  const { status } = await cluster.deployment("directory").reaches("Ready");
  expect(status?.["projectKey"]).toMatchObject({ subDir: "teams/shop" });
});

test("a private repository is read with its Secret, and a wrong password is reported without being shown", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const login = { username: "ada", password: "right-horse-battery" };
  const wrong = "wrong-canary-9f2c71";
  const git = await useGitServer(login);
  const repo = await git.repo("private");
  await repo.push(aProject({ namespace: cluster.namespace }));
  const secret = (name: string, password: string) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name },
    stringData: { username: login.username, password },
  });
  await cluster.create(secret("git-login", wrong));
  const towline = await useTowline(world);
  const credentials = { git: [{ host: new URL(repo.url).host, secretRef: { name: "git-login" } }] };
  const deployment = cluster.deployment("private");
  await deployment.create(aSpec(repo.url, { credentials, retryInterval: "2s" }));

  const refused = await deployment.settles();
  expect(failureOf(refused)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(failureOf(refused).error).toContain("authentication failed");
  expect(failureOf(refused).error).toContain(`secret ${cluster.namespace}/git-login, user "ada"`);
  await expect.poll(() => deployment.events(), patience).not.toEqual([]);
  const told = JSON.stringify([refused, await deployment.events(), towline.lines]);
  expect(told).not.toContain(wrong);
  expect(told).not.toContain(Buffer.from(`ada:${wrong}`).toString("base64"));

  const anonymous = cluster.deployment("anonymous");
  await anonymous.create(aSpec(repo.url));
  expect(failureOf(await anonymous.settles()).error).toContain("no login: no entry");

  // kluctl compares host and port, which is a common mistake.
  const { host, hostname } = new URL(repo.url);
  const portless = cluster.deployment("portless");
  const without = { git: [{ host: hostname, secretRef: { name: "git-login" } }] };
  await portless.create(aSpec(repo.url, { credentials: without }));
  expect(failureOf(await portless.settles()).error).toContain(
    `secret ${cluster.namespace}/git-login is for host ${hostname}, but the URL's host is ${host}: include the port`,
  );

  await cluster.patch(secret("git-login", login.password));
  const ready = await deployment.reaches("Ready");
  expect(ready.status?.["lastPrepareError"]).toBeUndefined();
  expect(JSON.stringify([ready, await deployment.events(), towline.lines])).not.toContain(login.password);
});

test("a missing or empty repository or a missing directory is reported, and deployed once it exists", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const git = await useGitServer();
  const empty = await git.repo("empty");
  const misplaced = await git.repo("misplaced");
  const project = (name: string) => aProject({ namespace: cluster.namespace, name, data: { from: name } });
  await misplaced.push(project("misplaced"));
  await useTowline(world);
  const spec = (url: string, path = "") => aSpec(url, { source: { git: { url, path } }, retryInterval: "2s" });
  const gone = `${git.url}/late.git`;
  const [late, bare, astray] = ["late", "empty", "misplaced"].map((name) => cluster.deployment(name));
  await late!.create(spec(gone));
  await bare!.create(spec(empty.url));
  await astray!.create(spec(misplaced.url, "no/such/directory"));

  const errors = [await late!.settles(), await bare!.settles(), await astray!.settles()].map(failureOf);
  expect(errors.map(({ status, reason }) => [status, reason])).toEqual(
    Array(3).fill(["False", "PrepareFailed"]) as string[][],
  );
  expect(errors[0]?.error).toMatch(/late.*no such repository/);
  expect(errors[1]?.error).toMatch(/empty.*no commits/);
  expect(errors[2]?.error).toMatch(/no\/such\/directory/);

  const repo = await git.repo("late");
  await repo.push(project("late"));
  await empty.push(project("empty"));
  await misplaced.push(
    Object.fromEntries(Object.entries(project("misplaced")).map(([path, text]) => [`no/such/directory/${path}`, text])),
  );
  for (const [i, name] of ["late", "empty", "misplaced"].entries()) {
    await [late, bare, astray][i]!.reaches("Ready");
    expect(await cluster.data(name)).toEqual({ from: name });
  }
});

test("a deleted branch prunes nothing, and is followed again when it is back", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const release = await repo.push({}, { branch: "release" });
  const towline = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  const deployment = cluster.deployment("shop");
  const source = { git: { url: repo.url, ref: { branch: "release" } } };
  await deployment.create(aSpec(repo.url, { source, prune: true, delete: true }));
  await deployment.reaches("Ready");

  await repo.deleteBranch("release");
  const answer = await sendPush(towline.webhooksUrl, {
    repo: repo.url,
    ref: "refs/heads/release",
    after: "0".repeat(40),
  });
  expect(await answer.json()).toMatchObject({ matched: 1 });
  const missing = await deployment.until("a failure", (resource) => conditionOf(resource, "Ready")?.status === "False");
  await deployment.settles();
  expect(failureOf(missing)).toMatchObject({ reason: "PrepareFailed" });
  expect(failureOf(missing).error).toContain("there is no branch release");
  expect(await cluster.data("settings")).toEqual({ color: "red" });
  expect(missing.status).toMatchObject({ observedCommit: release, lastDeployResult: expect.anything() as unknown });

  // No webhook reports that it is back.
  const back = await repo.push(aProject({ namespace, data: { color: "green" } }), { branch: "release", force: true });
  await deployment.settles(back);
  await deployment.reaches("Ready");
  expect(await cluster.data("settings")).toEqual({ color: "green" });

  const forced = await repo.push(aProject({ namespace, data: { color: "grey" } }), { branch: "release", force: true });
  await sendPush(towline.webhooksUrl, { repo: repo.url, ref: "refs/heads/release", after: forced });
  await deployment.settles(forced);
  expect(await cluster.data("settings")).toEqual({ color: "grey" });

  // The deployed objects can be deleted without git.
  await repo.deleteBranch("release");
  await deployment.delete();
  await expect.poll(() => deployment.get(), patience).toBeUndefined();
  expect(await cluster.data("settings")).toBeUndefined();
});

test("a push without a webhook is found", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: cluster.namespace }));
  const towline = await useTowline(world, { TOWLINE_SWEEP_INTERVAL: "5s" });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  const second = await repo.push(aProject({ namespace: cluster.namespace, data: { color: "blue" } }));
  await deployment.settles(second);
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  expect(towline.lines).toContainEqual(expect.objectContaining({ msg: "found new commits without a webhook" }));
  const why = "webhooks missing: the webhooks cannot be read: the forge has no login for its API";
  await vi.waitFor(() => expect(towline.lines).toContainEqual(expect.objectContaining({ msg: why })), patience);
});
