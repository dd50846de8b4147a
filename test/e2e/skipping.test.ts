/** What is not done because nothing can have changed, and what is done at once because something has. */
import { expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { idOf, type TestDeployment, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const leftOut = "nothing can have changed: the loop is left out";

test("a loop is left out while nothing can have changed, and any change is looked at", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  const parts = await world.repo("parts");
  const part = (data: string) => ({
    "deployment.yaml": stringify({ deployments: [{ path: "part" }] }),
    "part/part.yml": stringify({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "part", namespace },
      data: { data },
    }),
  });
  await parts.push(part("one"));
  const whole = await world.repo("whole");
  await whole.push({
    ".kluctl.yaml": stringify({ discriminator: `${namespace}-whole`, targets: [{ name: "prod" }] }),
    "deployment.yaml": stringify({ deployments: [{ git: { url: parts.url, ref: { branch: "main" } } }] }),
  });
  const asking = await world.repo("asking");
  await asking.push({
    ...aProject({ namespace, name: "asking" }),
    "deployment.yaml": stringify({
      deployments: [{ path: "app" }],
      vars: [{ http: { url: repo.url }, when: "False" }],
    }),
  });
  const login = { apiVersion: "v1", kind: "Secret", metadata: { name: "login" } };
  await cluster.create({ ...login, stringData: { username: "a", password: "b" } } as object);
  const towline = await useTowline(world);
  const of = (name: string, msg: string) => towline.lines.filter((line) => line["name"] === name && line.msg === msg);
  const compared = (name: string) => of(name, "compared").length;
  const doubts = (name: string) => of(name, "something may have changed").map((line) => line["doubt"]);
  const isLeftOutAgain = async (name: string) => {
    const before = of(name, leftOut).length;
    await vi.waitFor(() => expect(of(name, leftOut).length, `${name} is left out`).toBeGreaterThan(before), patience);
  };

  const [still, edited, including, asks] = ["still", "edited", "whole", "asking"].map(cluster.deployment) as [
    TestDeployment,
    TestDeployment,
    TestDeployment,
    TestDeployment,
  ];
  const credentials = { git: [{ host: "git.example.com", secretRef: { name: "login" } }] };
  await still.create(aSpec(repo.url, { interval: "2s", args: { name: "still" }, credentials }));
  await edited.create(aSpec(repo.url, { args: { name: "edited" } }));
  await including.create(aSpec(whole.url, { interval: "2s" }));
  await asks.create(aSpec(asking.url, { interval: "2s" }));

  // Variables from a web server may be others the next time.
  await vi.waitFor(() => expect(doubts("asking")).toContain("project"), patience);
  await asks.patch({ spec: { suspend: true } });
  expect(of("asking", leftOut)).toEqual([]);

  // Somebody edits and deletes what was applied: seen without an interval.
  const deployed = await edited.reaches("Ready");
  const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "edited" } };
  await cluster.patch({ ...config, data: { color: "theirs" } } as object);
  const drifts = (message: string) =>
    edited.until("a report of the drift", ({ status }) => status?.["lastDriftDetectionResultMessage"] === message);
  await drifts("1 chg");
  expect(of("edited", "an applied object changed")).toHaveLength(1);
  await cluster.delete(config);
  expect(idOf(await drifts("1 new"), "lastDeployResult")).toBe(idOf(deployed, "lastDeployResult"));

  // Nothing is run, and what people see goes on.
  const drift = ({ status }: TestResource) => status?.["lastDriftDetectionResult"] as { id: string; endTime: string };
  await Promise.all(["still", "whole"].map(isLeftOutAgain));
  const before = await still.settles();
  const runs = compared("still");
  await isLeftOutAgain("still");
  const after = await still.until("later times", (now) => drift(now).endTime > drift(before).endTime);
  expect(drift(after).id).toBe(drift(before).id);
  expect(after.status?.conditions).toEqual(before.status?.conditions);
  expect(compared("still")).toBe(runs);

  // A Secret that it names, a place that it includes, the branch that it follows.
  await cluster.patch({ ...login, stringData: { password: "c" } } as object);
  await vi.waitFor(() => expect(doubts("still")).toContain("secrets"), patience);
  await vi.waitFor(() => expect(compared("still")).toBeGreaterThan(runs), patience);
  await parts.push(part("two"));
  await expect.poll(() => cluster.data("part"), patience).toEqual({ data: "two" });
  const moved = await repo.push(aProject({ namespace, name: "{{ args.name }}", data: { color: "blue" } }));
  await still.settles(moved);
  expect(await cluster.data("still")).toEqual({ color: "blue" });

  // What was deployed is nobody's drift.
  await isLeftOutAgain("still");
  expect(of("still", "an applied object changed")).toEqual([]);
  const metrics = await (await fetch(`${towline.adminUrl}/metrics`)).text();
  expect(metrics).toMatch(/^towline_interval_loops_total\{done="skipped",doubt=""\} \d+$/m);
  expect(metrics).toMatch(/^towline_interval_loops_total\{done="looked",doubt="project"\} \d+$/m);
  expect(metrics).toMatch(/^towline_drift_looks_total [2-9]$/m);
});
