/** Pull requests from forks, rendered without the cluster by the server itself or by its preview runner. */
import { randomBytes } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { attackInPlace, attackProgram } from "../support/attacks.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { textsBelow } from "../support/files-below.ts";
import { patience } from "../support/patience.ts";
import { runnerVariables, useRunner } from "../support/preview-runner.ts";
import { aProject, aSpec } from "../support/project.ts";
import { type OpenPullRequest, usePullRequests } from "../support/pull-requests.ts";
import { useTowlinePod } from "../support/towline-pod.ts";
import { environment } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";

const canary = `CANARY-${randomBytes(8).toString("hex")}`;
const places = ["on the server", "at a preview runner in a pod"] as const;
type Place = (typeof places)[number];
const isolated = { TOWLINE_PREVIEW_FORKS: "isolated", TOWLINE_PREVIEW_ISOLATION: "auto" };

/**
 * A deployment that follows `main` and never deploys: the live objects were created by another tool, and differ in one
 * value.
 */
async function useShop(place: Place) {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const inPod = place === "at a preview runner in a pod";
  const runner = inPod ? await useRunner(world, { pod: await useTowlinePod() }) : undefined;
  const pulls = await usePullRequests(world, { ...isolated, ...(runner && runnerVariables(runner.port)) });
  await pulls.repo.push(aProject({ namespace, data: { color: "red", size: "small" } }));
  const live = { metadata: { name: "settings" }, data: { color: "red", size: canary } };
  await cluster.core.createNamespacedConfigMap({ namespace, body: live });
  await cluster.deployment("shop").create(aSpec(pulls.repo.url, { suspend: true }));
  const settings = (data: Record<string, string>) =>
    stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace }, data });
  return { world, pulls, namespace, settings, runner };
}

/** Everything about a preview that users and other servers can read, and what it left on the disk. */
async function readAround({ redis, cluster, dir }: TestWorld, lines: readonly object[], pull: OpenPullRequest) {
  const connection = new Redis(redis.url);
  onTestFinished(() => connection.disconnect());
  const keys = await connection.keys(`${redis.prefix}*`);
  const dumps = await Promise.all(keys.map(async (key) => (await connection.dumpBuffer(key))?.toString("latin1")));
  const events = await cluster.core.listNamespacedEvent({ namespace: cluster.namespace });
  const texts = await textsBelow(dir);
  texts.delete(join(dir, "secret-of-the-server"));
  return {
    comments: JSON.stringify(await pull.comments()),
    log: lines.map((line) => JSON.stringify(line)).join("\n"),
    redis: dumps.join("\n"),
    events: JSON.stringify(events.items),
    left: [...texts.values()].join("\n"),
  };
}

test.each(places)(
  "a fork is rendered %s without the cluster, and compared in full once it is allowed",
  async (place) => {
    const { world, pulls, settings, runner } = await useShop(place);
    const pull = await pulls.openFromFork("app/settings.yml", settings({ color: "blue", size: "small" }));

    const comment = await pull.comment("would change 1 suspended deployment: 1 object changed");
    expect(comment).toContain("**This is rendered without the cluster**");
    expect(comment).toContain("not with the live cluster");
    expect(comment).toMatch(/data\.color:\n-\s+red\n\+\s+blue/);
    expect(comment).not.toContain("data.size");
    expect(comment).not.toContain(canary);
    const name = `gitea:${pulls.gitea.organization}/shop#${pull.number}`;
    expect(comment).toContain(`towline preview --allow ${name} ${pull.head}`);
    await expect
      .poll(() => pulls.statuses(pull.head), patience)
      .toMatchObject({ towline: expect.stringMatching(/^success: .*rendered without the cluster/) as string });
    const { adminUrl } = pulls.towline;
    const ready = (await (await fetch(`${adminUrl}/readyz`)).json()) as { checks: Record<string, unknown> };
    expect(ready.checks["previews"]).toMatchObject({ forks: "isolated" });
    expect(await (await fetch(`${adminUrl}/metrics`)).text()).toContain("towline_preview_forks_isolated 1");
    const commands = () => {
      const lines = runner?.lines.filter(({ msg }) => msg === "preview rendered for a server");
      return lines && [...new Set(lines.map(({ command }) => command))];
    };
    expect(commands()).toEqual(runner && ["render"]);

    // An allowed commit is compared like a branch: the object in the cluster was not deployed by kluctl.
    expect((await commandLine(["preview", "--allow", name, pull.head], { env: environment(world) })).code).toBe(0);
    const whole = await pull.comment("kluctl.io/discriminator");
    expect(whole).toContain("compared with the live cluster");
    expect(whole).not.toContain("rendered without the cluster");
    expect(commands()).toEqual(runner && ["render", "diff"]);
  },
);

test.each(places)(
  "a hostile fork rendered %s gets nothing: no file, environment, token, port or Secret",
  async (place) => {
    const { world, pulls, namespace, settings, runner } = await useShop(place);
    const { cluster, redis, dir } = world;
    const secret = join(dir, "secret-of-the-server");
    await writeFile(secret, `found: ${canary}\n`);
    const stringData = { vars: `found: ${canary}` };
    await cluster.core.createNamespacedSecret({ namespace, body: { metadata: { name: "login" }, stringData } });
    const [api = 0, store = 0] = [await apiServerOf(cluster.kubeconfig), redis.url].map((url) =>
      Number(new URL(url).port),
    );
    const pid = runner?.child.pid ?? process.pid;
    for (const port of runner ? [api, runner.port] : [api, store]) {
      expect(port).toBeGreaterThan(0);
      const places = { files: { secret }, ports: { listener: port }, above: dir, pid };
      const pull = await pulls.openFromFork(
        "app/settings.yml",
        settings({ color: attackInPlace(attackProgram(places)), size: "small" }),
      );
      const comment = await pull.comment("got nothing with");
      expect(comment).toContain("rendered without the cluster");
      const around = await readAround(world, pulls.towline.lines, pull);
      for (const [place, text] of Object.entries(around))
        expect([place, text.includes(canary)]).toEqual([place, false]);
    }
    if (runner) {
      await expect.poll(() => readdir(join(runner.dataDir, "slots")), patience).toEqual([]);
      expect(JSON.stringify(runner.lines)).not.toContain(canary);
    }

    const declared = [
      [`file: ${secret}`, "cannot be rendered"],
      [`http: {url: "https://127.0.0.1:${api}/version"}`, "because it fetches something over the network"],
      [`http: {url: "http://127.0.0.1:${store}/"}`, "because it fetches something over the network"],
      [
        `clusterSecret: {name: login, namespace: ${namespace}, key: vars}`,
        "because it reads variables from the cluster",
      ],
    ] as const;
    for (const [vars, words] of declared) {
      const text = `vars: [{${vars}}]\ndeployments: [{path: app}]\n`;
      const pull = await pulls.openFromFork("deployment.yaml", text);
      const comment = await pull.comment(words);
      expect(comment).toContain(`towline preview --allow`);
      const around = await readAround(world, pulls.towline.lines, pull);
      for (const [place, text] of Object.entries(around))
        expect([place, text.includes(canary)]).toEqual([place, false]);
    }
  },
  300_000,
);

async function apiServerOf(kubeconfig: string): Promise<string> {
  return /https?:[^"\s]+/.exec(await readFile(kubeconfig, "utf8"))?.[0] ?? "";
}
