/** Work that is skipped because nothing can have changed, and work that is done at once because something has. */
import { copyFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline, useTowlineProcess } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { idOf, type TestDeployment, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const leftOut = "check skipped: nothing can have changed";

test("a check is skipped while nothing can have changed, and any change is a reason to check", async () => {
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
  // Two projects side by side; only one of them may read files of the other.
  const mono = await world.repo("mono");
  const inDirectory = (name: string, more = {}) => ({
    [`apps/${name}/.kluctl.yaml`]: stringify({ discriminator: `${namespace}-${name}`, targets: [{ name: "prod" }] }),
    [`apps/${name}/deployment.yaml`]: stringify({ deployments: [{ path: "app" }], ...more }),
    [`apps/${name}/app/app.yml`]: stringify({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name, namespace },
      data: { base: name === "alone" ? "none" : "{{ base }}" },
    }),
  });
  const base = (value: string) => ({ "base/vars.yml": stringify({ base: value }) });
  const besides = { vars: [{ file: "../../base/vars.yml" }] };
  // The path is not in the project itself: it comes from a value that it includes from elsewhere.
  const values = await world.repo("values");
  await values.push({ "where.yml": stringify({ where: "../../base" }) });
  const toldWhere = {
    vars: [
      { git: { url: values.url, ref: { branch: "main" }, path: "where.yml" } },
      { file: "{% raw %}{{ where }}/vars.yml{% endraw %}" },
    ],
  };
  await mono.push({
    ...inDirectory("alone"),
    ...inDirectory("beside", besides),
    ...inDirectory("told", toldWhere),
    ...base("one"),
  });
  const towline = await useTowline(world);
  const of = (name: string, msg: string) => towline.lines.filter((line) => line["name"] === name && line.msg === msg);
  const compared = (name: string) => of(name, "compared").length;
  const reasons = (name: string) =>
    of(name, "check not skipped: something may have changed").map((line) => line["reason"]);
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
  await asks.create(aSpec(asking.url, { interval: "2s", validate: true }));
  const [alone, beside, told] = ["alone", "beside", "told"].map(cluster.deployment) as [
    TestDeployment,
    TestDeployment,
    TestDeployment,
  ];
  const at = (path: string) => ({ source: { git: { url: mono.url, ref: { branch: "main" }, path } }, interval: "2s" });
  await alone.create(aSpec(mono.url, at("apps/alone")));
  await beside.create(aSpec(mono.url, at("apps/beside")));
  await told.create(aSpec(mono.url, at("apps/told")));

  // Variables from a web server may differ the next time.
  await vi.waitFor(() => expect(reasons("asking")).toContain("project"), patience);
  // Its objects are compared, and what kluctl would say of them follows from that.
  await vi.waitFor(() => expect(of("asking", "validated, without asking kluctl").length).toBeGreaterThan(1), patience);
  expect(of("asking", "validated")).toEqual([]);
  await asks.patch({ spec: { suspend: true } });
  expect(of("asking", leftOut)).toEqual([]);

  // Manual edits and deletions of applied objects are detected without an interval.
  const deployed = await edited.reaches("Ready");
  const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "edited" } };
  await cluster.patch({ ...config, data: { color: "theirs" } } as object);
  const drifts = (message: string) =>
    edited.until("a report of the drift", ({ status }) => status?.["lastDriftDetectionResultMessage"] === message);
  await drifts("1 chg");
  expect(of("edited", "an applied object changed")).toHaveLength(1);
  await cluster.delete(config);
  expect(idOf(await drifts("1 new"), "lastDeployResult")).toBe(idOf(deployed, "lastDeployResult"));

  // kluctl does not run, and the status is still updated.
  const drift = ({ status }: TestResource) => status?.["lastDriftDetectionResult"] as { id: string; endTime: string };
  await Promise.all(["still", "whole"].map(isLeftOutAgain));
  const before = await still.settles();
  const runs = await vi.waitFor(async () => {
    // Other tests add kinds to the cluster, which is a reason to check.
    const count = compared("still");
    await isLeftOutAgain("still");
    expect(compared("still")).toBe(count);
    return count;
  }, patience);
  const after = await still.until("later times", (now) => drift(now).endTime > drift(before).endTime);
  expect(drift(after).id).toBe(drift(before).id);
  expect(after.status?.conditions).toEqual(before.status?.conditions);

  // A Secret that it references, a repository that it includes, the branch that it follows.
  await cluster.patch({ ...login, stringData: { password: "c" } } as object);
  await vi.waitFor(() => expect(reasons("still")).toContain("secrets"), patience);
  await vi.waitFor(() => expect(compared("still")).toBeGreaterThan(runs), patience);
  await parts.push(part("two"));
  await expect.poll(() => cluster.data("part"), patience).toEqual({ data: "two" });
  await isLeftOutAgain("still");
  const moved = await repo.push(aProject({ namespace, name: "{{ args.name }}", data: { color: "blue" } }));
  await still.settles(moved);
  expect(await cluster.data("still")).toEqual({ color: "blue" });
  // The deployed objects had not changed, so the commit was deployed without a comparison.
  const loopOf = (line: Readonly<Record<string, unknown>> | undefined) => line?.["reconcileID"];
  const [deploys, looksFirst] = [of("still", "deployed"), of("still", "compared")];
  const deploy = deploys.find(({ commit }) => commit === moved);
  expect(deploy).toMatchObject({ why: "objects-changed", changed: 1 });
  expect(looksFirst.map(loopOf)).not.toContain(loopOf(deploy));

  // A commit that renders the same objects changes nothing, and no deploy is reported.
  await isLeftOutAgain("still");
  const versionOf = async () => {
    const { metadata } = await cluster.core.readNamespacedConfigMap({ name: "still", namespace });
    return metadata?.resourceVersion;
  };
  const [asDeployed, version, runsBefore] = [await still.settles(), await versionOf(), of("still", "deployed").length];
  const renamed = await still.settles(await repo.push({ "NOTES.txt": "The same objects.\n" }));
  expect(idOf(renamed, "lastDeployResult")).toBe(idOf(asDeployed, "lastDeployResult"));
  expect(await versionOf()).toBe(version);
  expect(of("still", "deployed")).toHaveLength(runsBefore);
  expect(of("still", "deploy ok").at(-1)).toMatchObject({ objects: { new: 0, changed: 0, deleted: 0, errors: 0 } });

  // A commit that changes no file that a project reads is recorded in its status, without a comparison.
  await Promise.all(["alone", "beside", "told"].map(isLeftOutAgain));
  const looked = reasons("alone").length;
  const elsewhere = await mono.push(base("two"));
  await Promise.all([alone, beside, told].map((one) => one.settles(elsewhere)));
  expect(await cluster.data("beside")).toEqual({ base: "two" });
  expect(await cluster.data("told")).toEqual({ base: "two" });
  expect(reasons("alone").slice(looked)).not.toContain("refs");
  const own = await mono.push({ "apps/alone/app/app.yml": "", "apps/alone/app/other.yml": "# nothing" });
  await alone.settles(own);

  // Objects that the server applied itself are not drift.
  await isLeftOutAgain("still");
  expect(of("still", "an applied object changed")).toEqual([]);
  const metrics = await (await fetch(`${towline.adminUrl}/metrics`)).text();
  expect(metrics).toMatch(/^towline_interval_checks_total\{result="skipped",reason=""\} \d+$/m);
  expect(metrics).toMatch(/^towline_interval_checks_total\{result="checked",reason="project"\} \d+$/m);
  expect(metrics).toMatch(/^towline_drift_checks_total [2-9]$/m);
});

test("replacing kluctl, even with the same version, causes everything to be rendered again", async () => {
  const world = await useWorld();
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: world.cluster.namespace }));
  const binary = join(world.dir, "kluctl");
  await copyFile(world.kluctl, binary);
  const towline = await useTowline(world, { TOWLINE_KLUCTL: binary });
  await world.cluster.deployment("shop").create(aSpec(repo.url, { interval: "2s" }));
  const count = (msg: string) => towline.lines.filter((line) => line.msg === msg).length;
  await vi.waitFor(() => expect(count(leftOut)).toBeGreaterThan(1), patience);

  const compared = count("compared");
  await copyFile(world.kluctl, `${binary}.new`);
  await rename(`${binary}.new`, binary);
  await vi.waitFor(() => expect(count("compared")).toBeGreaterThan(compared), patience);
  const before = count(leftOut);
  await vi.waitFor(() => expect(count(leftOut)).toBeGreaterThan(before + 1), patience);
});

test("an audit finds a change that no watch has seen, and logs what was assumed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const towline = await useTowline(world, { TOWLINE_SWEEP_AUDIT_SKIPS: "1" });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "2s" }));
  const metrics = async () => (await fetch(`${towline.adminUrl}/metrics`)).text();
  await vi.waitFor(
    async () => expect(await metrics()).toMatch(/^towline_skip_audits_total{result="right"} [1-9]/m),
    patience,
  );
  expect(await metrics()).toContain('towline_wrong_skips_total{believed="objects"} 0\n');

  // A kind that no deployment here uses: it is not watched, but kluctl looks for it.
  const { status } = await deployment.settles();
  const { discriminator } = status!["targetKey"] as { discriminator: string };
  const labels = { "kluctl.io/discriminator": discriminator };
  const stray = { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace, name: "stray", labels } };
  await cluster.objects.create(stray, undefined, undefined, "kluctl");
  await vi.waitFor(
    async () => expect(await metrics()).toMatch(/^towline_wrong_skips_total{believed="objects"} [1-9]/m),
    patience,
  );
  const wrong = towline.lines.find(
    ({ msg }) =>
      msg ===
      "skip audit: a check was skipped although it would have found a change; please report this (see docs/reliability.md, Auditing skips)",
  );
  expect(wrong).toMatchObject({ level: 50, namespace, name: "shop", believed: "objects" });
  expect(wrong?.["found"]).toMatchObject({ count: 1, objects: [{ kind: "ServiceAccount", name: "stray" }] });
});

test("two servers collect evidence separately, and neither skips a check that the other has to do", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const repo = await world.repo("shop");
  const project = (color: string) => aProject({ namespace: cluster.namespace, data: { color } });
  await repo.push(project("red"));
  const debug = { TOWLINE_LOG_LEVEL: "debug" };
  const servers = [await useTowlineProcess(world, debug), await useTowlineProcess(world, debug)];
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "1s" }));
  const linesOf = (msg: string) => servers.map(({ lines }) => lines.filter((line) => line.msg === msg));
  const skips = () => linesOf(leftOut).map((lines) => lines.length);
  // The server that is first at the end of an interval leaves nothing to the other, so each has its turn while the
  // others are frozen.
  const bothLeaveOut = async () => {
    const sum = () => skips().reduce((a, b) => a + b, 0);
    for (const server of servers) {
      const all = sum();
      await vi.waitFor(() => expect(sum()).toBeGreaterThan(all), patience); // no check is in progress then
      const others = servers.filter((other) => other !== server);
      for (const { child } of others) child.kill("SIGSTOP");
      const leftOutBy = () => server.lines.filter((line) => line.msg === leftOut).length;
      const before = leftOutBy();
      await vi
        .waitFor(() => expect(leftOutBy()).toBeGreaterThan(before), patience)
        .finally(() => {
          for (const { child } of others) child.kill("SIGCONT");
        });
    }
  };
  await bothLeaveOut();

  // One of them deploys the commit: the other's evidence becomes invalid, and it does not see drift.
  await deployment.settles(await repo.push(project("blue")));
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  await bothLeaveOut();
  expect(linesOf("an applied object changed").flat()).toEqual([]);

  // Both see an edit. Whichever server checks, the other does not overwrite the result.
  const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" } };
  await cluster.patch({ ...config, data: { color: "theirs" } } as object);
  const drift = ({ status }: TestResource) => status?.["lastDriftDetectionResultMessage"];
  const told = await deployment.until("the drift", (now) => drift(now) === "1 chg");
  const before = skips();
  const looks = linesOf("compared").flat().length;
  await vi.waitFor(() => expect(linesOf("compared").flat().length).toBeGreaterThan(looks + 2), patience);
  expect(skips()).toEqual(before);
  const still = (await deployment.get())!;
  expect([drift(still), idOf(still, "lastDeployResult")]).toEqual(["1 chg", idOf(told, "lastDeployResult")]);

  // The remaining server takes over everything.
  await servers.shift()?.stop();
  await cluster.patch({ ...config, data: { color: "blue" } } as object);
  await deployment.until("no drift", (now) => drift(now) === "no drift");
  await bothLeaveOut();
});

test("with skipping switched off, everything runs each time, and drift and pushes are found all the same", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const towline = await useTowline(world, { TOWLINE_SWEEP_SKIPPING: "false" });
  const shop = cluster.deployment("shop");
  await shop.create(aSpec(repo.url, { interval: "2s", validate: true }));
  await shop.reaches("Ready");
  const count = (msg: string) => towline.lines.filter((line) => line["name"] === "shop" && line.msg === msg).length;
  await vi.waitFor(() => {
    expect(count("compared")).toBeGreaterThan(2);
    expect(count("validated")).toBeGreaterThan(2);
  }, patience);

  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" } };
  await cluster.patch({ ...settings, data: { color: "theirs" } } as object);
  await shop.until("a report of the drift", ({ status }) => status?.["lastDriftDetectionResultMessage"] === "1 chg");

  const commit = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: commit });
  await shop.until("the commit", ({ status }) => status?.["observedCommit"] === commit);
  await shop.until("no drift", ({ status }) => status?.["lastDriftDetectionResultMessage"] === "no drift");
  expect(count("deployed")).toBe(2);
  expect(towline.lines.filter(({ msg }) => /skipped|applied object changed/.test(msg))).toEqual([]);
});
