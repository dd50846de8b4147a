/** Pull requests from forks on a server that renders them without the cluster. */
import { randomBytes } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { attackInPlace, attackProgram } from "../support/attacks.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { type OpenPullRequest, usePullRequests } from "../support/pull-requests.ts";
import { environment } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const canary = `CANARY-${randomBytes(8).toString("hex")}`;
const isolated = { TOWLINE_PREVIEW_FORKS: "isolated", TOWLINE_PREVIEW_ISOLATION: "auto" };

/** A deployment that follows `main` and never deploys: what is live is somebody else's, and differs in a value. */
async function useShop() {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world, isolated);
  await pulls.repo.push(aProject({ namespace, data: { color: "red", size: "small" } }));
  const live = { metadata: { name: "settings" }, data: { color: "red", size: canary } };
  await cluster.core.createNamespacedConfigMap({ namespace, body: live });
  await cluster.deployment("shop").create(aSpec(pulls.repo.url, { suspend: true }));
  const settings = (data: Record<string, string>) =>
    stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace }, data });
  return { world, pulls, namespace, settings };
}

/** All that people and other servers can read of what a preview did, and what it left on the disk. */
async function readAround({ redis, cluster, dir }: TestWorld, lines: readonly object[], pull: OpenPullRequest) {
  const connection = new Redis(redis.url);
  onTestFinished(() => connection.disconnect());
  const keys = await connection.keys(`${redis.prefix}*`);
  const dumps = await Promise.all(keys.map(async (key) => (await connection.dumpBuffer(key))?.toString("latin1")));
  const events = await cluster.core.listNamespacedEvent({ namespace: cluster.namespace });
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== "secret-of-the-server");
  const texts = files.map(({ parentPath, name }) => readFile(join(parentPath, name), "latin1").catch(() => ""));
  return {
    comments: JSON.stringify(await pull.comments()),
    log: lines.map((line) => JSON.stringify(line)).join("\n"),
    redis: dumps.join("\n"),
    events: JSON.stringify(events.items),
    left: (await Promise.all(texts)).join("\n"),
  };
}

test("a fork is rendered without the cluster and compared with its base; in full once somebody allows it", async () => {
  const { world, pulls, settings } = await useShop();
  const pull = await pulls.openFromFork("app/settings.yml", settings({ color: "blue", size: "small" }));

  const comment = await pull.comment("would change 1 suspended deployment: 1 object changed");
  expect(comment).toContain("**This is rendered without the cluster**");
  expect(comment).toContain("not what is live in the cluster");
  expect(comment).toMatch(/data\.color:\n-\s+red\n\+\s+blue/);
  expect(comment).not.toContain("data.size");
  expect(comment).not.toContain(canary);
  const name = `gitea:${pulls.gitea.organization}/shop#${pull.number}`;
  expect(comment).toContain(`towline preview --allow ${name} ${pull.head}`);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching(/^success: .*rendered without the cluster/) as string });

  // What is allowed gets what a branch gets: the object in the cluster is none of kluctl's.
  expect((await commandLine(["preview", "--allow", name, pull.head], { env: environment(world) })).code).toBe(0);
  const whole = await pull.comment("kluctl.io/discriminator");
  expect(whole).toContain("compared with the live cluster");
  expect(whole).not.toContain("rendered without the cluster");
});

test("a hostile fork gets nothing: no file, environment, token, API server, Redis or Secret", async () => {
  const { world, pulls, namespace, settings } = await useShop();
  const { cluster, redis, dir } = world;
  const secret = join(dir, "secret-of-the-server");
  await writeFile(secret, `found: ${canary}\n`);
  const stringData = { vars: `found: ${canary}` };
  await cluster.core.createNamespacedSecret({ namespace, body: { metadata: { name: "login" }, stringData } });
  const ports = [new URL(await apiServerOf(cluster.kubeconfig)), new URL(redis.url)].map(({ port }) => Number(port));
  for (const port of ports) {
    expect(port).toBeGreaterThan(0);
    const places = { canary: secret, above: dir, clone: join(dir, "no-such-clone"), pid: process.pid, port };
    const pull = await pulls.openFromFork(
      "app/settings.yml",
      settings({ color: attackInPlace(attackProgram(places)), size: "small" }),
    );
    const comment = await pull.comment("got nothing with");
    expect(comment).toContain("rendered without the cluster");
    const around = await readAround(world, pulls.towline.lines, pull);
    for (const [place, text] of Object.entries(around)) expect([place, text.includes(canary)]).toEqual([place, false]);
  }

  const [api = 0, store = 0] = ports;
  const declared = [
    [`file: ${secret}`, "cannot be rendered"],
    [`http: {url: "https://127.0.0.1:${api}/version"}`, "because it fetches something over the network"],
    [`http: {url: "http://127.0.0.1:${store}/"}`, "because it fetches something over the network"],
    [`clusterSecret: {name: login, namespace: ${namespace}, key: vars}`, "because it reads variables from there"],
  ] as const;
  for (const [vars, words] of declared) {
    const text = `vars: [{${vars}}]\ndeployments: [{path: app}]\n`;
    const pull = await pulls.openFromFork("deployment.yaml", text);
    const comment = await pull.comment(words);
    expect(comment).toContain(`towline preview --allow`);
    const around = await readAround(world, pulls.towline.lines, pull);
    for (const [place, text] of Object.entries(around)) expect([place, text.includes(canary)]).toEqual([place, false]);
  }
}, 300_000);

async function apiServerOf(kubeconfig: string): Promise<string> {
  return /https?:[^"\s]+/.exec(await readFile(kubeconfig, "utf8"))?.[0] ?? "";
}
