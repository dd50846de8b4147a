/** Secrets are planted wherever a preview reads something, and searched for wherever its output can be read. */
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { aProject, aSpec } from "../support/project.ts";
import { type PullRequests, usePullRequests } from "../support/pull-requests.ts";
import { readyOf, type TestCluster } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { uniqueName, useWorld, type TestWorld } from "../support/world.ts";

/** With characters that base64, URLs, JSON and YAML each encode differently. */
function aSecret(what: string): string {
  return `${what}/${randomBytes(9).toString("hex")}+"${randomBytes(9).toString("hex")}`;
}

const base64 = (text: string) => Buffer.from(text).toString("base64");

interface Planted {
  readonly password: string;
  readonly same: string;
  readonly hint: string;
  /** A Secret that exists in only one of the versions. */
  readonly own: { readonly name: string; readonly value: string };
}

/** A Secret, and its values in all places where users put them. */
function project(
  namespace: string,
  { password, same, hint, own }: Planted,
  more: Record<string, object> = {},
): FileChanges {
  const metadata = (name: string, annotations?: object) => ({ name, namespace, ...(annotations && { annotations }) });
  const labels = { app: "web" };
  const env = [{ name: "PASSWORD", value: password }];
  return aProject({
    namespace,
    data: {
      plain: password,
      sentence: `It is ${password}, and not ${same}.`,
      url: `https://shop:${encodeURIComponent(password)}@db.example.com/?token=${encodeURIComponent(same)}`,
      json: JSON.stringify({ db: { password, others: [same, own.value] } }),
      yaml: stringify({ db: { password, others: [same, own.value] } }),
      encoded: base64(password),
      "encoded.json": base64(JSON.stringify({ password })),
    },
    objects: {
      "secret.yml": {
        apiVersion: "v1",
        kind: "Secret",
        metadata: metadata("shop", { hint }),
        stringData: { password },
        data: { same: base64(same) },
      },
      "own.yml": { apiVersion: "v1", kind: "Secret", metadata: metadata(own.name), data: { own: base64(own.value) } },
      "web.yml": {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: metadata("web", { "example.com/login": `admin:${password}` }),
        spec: {
          replicas: 0,
          selector: { matchLabels: labels },
          template: {
            metadata: { labels },
            spec: { containers: [{ name: "web", image: "registry.example.com/web:v1", args: [`--key=${same}`], env }] },
          },
        },
      },
      ...more,
    },
  });
}

/** All places with readable output, and their content. */
async function readEverything(
  { redis, cluster }: TestWorld,
  { towline, gitea, path, statuses }: PullRequests,
  commits: readonly string[],
): Promise<Record<string, string>> {
  const metrics = await fetch(`${towline.adminUrl}/metrics`);
  return {
    comments: JSON.stringify(await gitea.call("GET", `${path}/issues/comments`)),
    statuses: JSON.stringify(await Promise.all(commits.map(statuses))),
    log: towline.lines.map((line) => JSON.stringify(line)).join("\n"),
    events: JSON.stringify((await cluster.core.listNamespacedEvent({ namespace: cluster.namespace })).items),
    metrics: await metrics.text(),
    redis: await readRedis(redis),
    resources: await readResources(cluster),
  };
}

async function readResources({ objects, namespace }: TestCluster): Promise<string> {
  const { items } = await objects.list("gitops.kluctl.io/v1beta1", "KluctlDeployment", namespace);
  return JSON.stringify(items);
}

/** All keys and values of this test, of any type. */
async function readRedis({ url, prefix }: TestWorld["redis"]): Promise<string> {
  const redis = new Redis(url);
  onTestFinished(() => redis.disconnect());
  const readers: Record<string, (key: string) => Promise<unknown>> = {
    string: (key) => redis.get(key),
    hash: (key) => redis.hgetall(key),
    list: (key) => redis.lrange(key, 0, -1),
    set: (key) => redis.smembers(key),
    zset: (key) => redis.zrange(key, 0, "-1"),
    stream: (key) => redis.xrange(key, "-", "+"),
    none: () => Promise.resolve("gone meanwhile"),
  };
  const keys = await redis.keys(`${prefix}*`);
  const read = async (key: string) => [key, await readers[await redis.type(key)]!(key)];
  return JSON.stringify(await Promise.all(keys.map(read)));
}

/** The secret itself and its encodings. The texts searched here are JSON-escaped once or twice. */
function spellings(secret: string): string[] {
  const once = JSON.stringify(secret).slice(1, -1);
  const twice = JSON.stringify(once).slice(1, -1);
  return [secret, once, twice, encodeURIComponent(secret), base64(secret).replace(/=+$/, "")];
}

test("no secret of a project, a cluster or a login can be read anywhere after a preview", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world);
  const { gitea, repo, path, towline } = pulls;

  // A repository that requires a login, and a deployment that has one.
  const login = { username: uniqueName("reader"), password: aSecret("login") };
  await gitea.call("POST", "/admin/users", {
    ...login,
    email: `${login.username}@example.com`,
    must_change_password: false,
  });
  onTestFinished(() => gitea.call("DELETE", `/admin/users/${login.username}?purge=true`));
  await gitea.call("PATCH", path, { private: true });
  await gitea.call("PUT", `${path}/collaborators/${login.username}`, { permission: "read" });
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "git-login" },
    stringData: login,
  } as object);

  const before: Planted = {
    password: aSecret("before"),
    same: aSecret("same"),
    hint: aSecret("hint"),
    own: { name: "gone", value: aSecret("gone") },
  };
  const after: Planted = {
    password: aSecret("after"),
    same: before.same,
    hint: aSecret("other"),
    own: { name: "fresh", value: aSecret("fresh") },
  };
  await repo.push(project(namespace, before));
  const credentials = { git: [{ host: new URL(repo.url).host, secretRef: { name: "git-login" } }] };
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { credentials, prune: true }));
  await deployment.reaches("Ready");

  // The API server's error messages quote rejected values.
  const refused = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace },
    spec: { type: after.password, ports: [{ port: 80, name: after.same }] },
  };
  const changed = project(namespace, after, { "service.yml": refused });
  const pull = await pulls.open({ ...changed, "app/own.yml": project(namespace, after)["app/own.yml"] });
  const body = await pull.comment("took", 120_000);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("failure: ") });

  // All of these were compared and reported.
  for (const name of ["fresh", "gone", "settings", "web", "password"]) expect(body).toContain(name);
  expect(body).toMatch(/unsupported value|invalid value/i);

  const secrets = {
    ...{ before: before.password, after: after.password, same: before.same, gone: before.own.value },
    ...{ fresh: after.own.value, hint: before.hint, other: after.hint },
    ...{ login: login.password, token: gitea.login.token, webhook: towline.webhookSecret },
  };
  expect(find(secrets, await readEverything(world, pulls, [pull.head]))).toEqual([]);

  // The deploy, which fails as the preview predicted, reveals nothing either.
  await pull.merge();
  await deployment.until("a failed deploy", (resource) => readyOf(resource).reason === "DeployFailed");
  await pull.comment("merged into");
  const merge = (await deployment.settles()).status?.["observedCommit"] as string;
  await expect
    .poll(() => pulls.statuses(merge), patience)
    .toMatchObject({ towline: expect.stringMatching("failure: ") });
  expect(find(secrets, await readEverything(world, pulls, [pull.head, merge]))).toEqual([]);
});

/** Each secret that was found, with its place and the surrounding text. */
function find(secrets: Record<string, string>, everything: Record<string, string>): string[] {
  return Object.entries(everything).flatMap(([place, text]) => {
    expect(text.length, place).toBeGreaterThan(100); // otherwise nothing was read
    return Object.entries(secrets).flatMap(([name, secret]) =>
      spellings(secret)
        .map((spelling) => text.indexOf(spelling))
        .filter((at) => at >= 0)
        .map((at) => `${name} in ${place}: ${text.slice(Math.max(0, at - 200), at + 80)}`),
    );
  });
}
