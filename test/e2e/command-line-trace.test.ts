/** What `towline trace` reports, and its exit code, at every stage of a deploy. */
import { stringify } from "yaml";
import { expect, onTestFinished, test, vi } from "vitest";
import { towline as commandLine } from "../support/command-line.ts";
import { useFaultServer } from "../support/faults.ts";
import { useJournal } from "../support/journal.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { environment, sendPush } from "../support/towline.ts";
import { useWorld, type TestWorld } from "../support/world.ts";

interface Sample {
  readonly state: string | undefined;
  readonly code: number;
}

/** 200 objects; the second hundred is applied once the object `gate` between them is ready. */
function slowProject(namespace: string, color: string, more: Record<string, object> = {}) {
  const map = (name: string, annotations?: Record<string, string>) =>
    stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, annotations }, data: { color } });
  const hundred = (path: string) =>
    Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`${path}/${i}.yml`, map(`${path}-${i}`)]));
  const gate = map("gate", { "kluctl.io/wait-readiness": "true", "kluctl.io/is-ready": String(color === "red") });
  return {
    ...aProject({ namespace, objects: more }),
    "deployment.yaml": stringify({
      deployments: [{ path: "first" }, { path: "gate" }, { barrier: true }, { path: "second" }, { path: "app" }],
    }),
    ...hundred("first"),
    "gate/gate.yml": gate,
    ...hundred("second"),
  };
}

async function countOf({ cluster: { core, namespace } }: TestWorld, color: string): Promise<number> {
  const { items } = await core.listNamespacedConfigMap({ namespace });
  return items.filter(({ data }) => data?.["color"] === color).length;
}

test("a deploy of 200 objects has no outcome until it has ended: slow, killed, superseded and failed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const env = environment(world);
  const towline = (...argv: string[]) => commandLine(argv, { env });
  const openGate = () =>
    cluster.patch({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "gate", annotations: { "kluctl.io/is-ready": "true" } },
    });
  const shop = cluster.deployment("shop");
  const trace = async (commit: string): Promise<Sample> => {
    const { code, out } = await towline("trace", commit, "-o", "json");
    const [found] = JSON.parse(out) as { deployments: { state: string }[] }[];
    return { code, state: found?.deployments[0]?.state };
  };
  /** Traces the commit continuously until there is an outcome, and then checks the cluster. */
  function follow(commit: string, isTrue: () => Promise<boolean>): { samples: Sample[]; ended: Promise<void> } {
    const samples: Sample[] = [];
    let isOver = false;
    onTestFinished(() => void (isOver = true));
    const ended = (async () => {
      while (!isOver) {
        const sample = await trace(commit);
        samples.push(sample);
        if (sample.code === 0) return expect(await isTrue()).toBe(true);
        expect(["waiting", "in progress", undefined]).toContain(sample.state);
      }
    })();
    ended.catch(() => undefined); // the test awaits it later
    return { samples, ended };
  }

  const server = await useFaultServer(world, journal, "server");
  await repo.push(slowProject(namespace, "red"));
  await shop.create(aSpec(repo.url, { timeout: "10m" }));
  await shop.reaches("Ready");

  const blue = await repo.push(slowProject(namespace, "blue"));
  const slow = follow(blue, async () => (await countOf(world, "blue")) === 201);
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: blue })).status).toBe(202);
  const halfWay = () => vi.waitFor(async () => expect(await countOf(world, "blue")).toBe(101), patience);
  await halfWay();
  expect(await trace(blue)).toEqual({ state: "in progress", code: 1 });

  server.child.kill("SIGKILL");
  await server.ended;
  expect(await trace(blue)).toEqual({ state: "in progress", code: 1 });
  const next = await useFaultServer(world, journal, "server");
  await vi.waitFor(() => expect(journal.deploys().filter(({ commit }) => commit === blue)).toHaveLength(2), patience);
  expect(await trace(blue)).toEqual({ state: "in progress", code: 1 });

  // Pushed during the deploy of blue, so it does not supersede it.
  const green = await repo.push(slowProject(namespace, "green"));
  expect((await sendPush(next.webhooksUrl, { repo: repo.url, after: green })).status).toBe(202);
  const release = await journal.hold(`[ "$commit" = ${green} ]`);
  const opening = setInterval(() => void openGate().catch(() => undefined), 200);
  onTestFinished(() => clearInterval(opening));
  await slow.ended;
  expect(slow.samples.some(({ state }) => state === "in progress")).toBe(true);
  await vi.waitFor(() => expect(journal.runs().some(({ commit }) => commit === green)).toBe(true), patience);
  expect((await trace(green)).code).toBe(1);
  const overtaken = follow(green, async () => (await countOf(world, "green")) === 201);
  await release();
  await overtaken.ended;
  expect(overtaken.samples.at(-1)?.state).toBe("applied");
  expect((await trace(blue)).code).toBe(0); // it was applied before a newer commit superseded it

  const bad = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "Not_A_Name", namespace } };
  const failing = await repo.push(slowProject(namespace, "black", { "bad.yml": bad }));
  expect((await sendPush(next.webhooksUrl, { repo: repo.url, after: failing })).status).toBe(202);
  const codes = new Set<number>();
  await vi.waitFor(async () => {
    const { code, state } = await trace(failing);
    codes.add(code);
    expect(state).toBe("failed");
  }, patience);
  expect([...codes]).toEqual([1]);
  // The object that was rejected is not in the cluster, so git and the cluster differ.
  const [shown] = JSON.parse((await towline("get", "kd", "-o", "json")).out) as { drift?: string }[];
  expect(shown?.drift).toMatch(/\b1 err\b/);
});
