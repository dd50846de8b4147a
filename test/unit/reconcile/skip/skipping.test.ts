import { expect, test } from "vitest";
import { annotation, type Deployment } from "../../../../src/model.ts";
import type { CheckReason, Found } from "../../../../src/skipping/evidence.ts";
import { anObject, aSummary, aValidation } from "../../../support/deployments.ts";
import { findUnsteadyFiles } from "../../../../src/source/unsteady-files.ts";
import { ready } from "../../../support/reconciling.ts";
import {
  appliedObject,
  aRendered,
  aSkippingWorld,
  aStanding,
  settingsId,
  settingsVersion,
} from "../../../support/skipping.ts";
import { useFiles } from "../../../support/world.ts";

const minute = 60_000;

type World = ReturnType<typeof aSkippingWorld>;

test("a reconciliation is skipped while nothing has changed, and the times in the status are updated", async () => {
  const world = aSkippingWorld();
  expect(await world.ask()).toBe("not-seen");
  await world.loop();
  expect(await world.ask()).toBe("skipped");
  expect(await world.ask()).toBe("skipped");
  const time = "2026-01-01T00:15:00Z";
  expect(world.moved.patches.at(-1)).toEqual({ lastDriftDetectionResult: { startTime: time, endTime: time } });
  expect(world.reasons).toEqual(["not-seen", undefined, undefined]);
});

/** What has changed at the next interval, and the reason to reconcile. */
const changes: readonly [string, CheckReason, (world: World) => Deployment | void][] = [
  ["the branch moved", "refs", ({ sources }) => void (sources.refs["refs/heads/main"] = "c2")],
  ["the branch is gone", "refs", ({ sources }) => void delete sources.refs["refs/heads/main"]],
  ["the remote does not answer", "refs", ({ sources }) => void (sources.failing.error = new Error("down"))],
  ["a Secret is another", "secrets", ({ secrets }) => void (secrets["shop/login"] = { password: "two" })],
  ["a Secret is gone", "secrets", ({ secrets }) => void delete secrets["shop/login"]],
  ["the cluster has other kinds", "cluster", ({ facts }) => void (facts.text = "1.33")],
  ["the kluctl binary changed", "kluctl", ({ facts }) => void (facts.kluctl = "2.29.0")],
  [
    "an object changed",
    "objects",
    ({ applied }) => applied.change(settingsId, { ...settingsVersion, resourceVersion: "11" }),
  ],
  [
    "an object is another of its name",
    "objects",
    ({ applied }) => applied.change(settingsId, { ...settingsVersion, uid: "new" }),
  ],
  ["an object is gone", "objects", ({ applied }) => applied.remove(settingsId)],
  ["there is one more object", "objects", ({ applied }) => applied.change("/Secret/shop/more", settingsVersion)],
  ["the objects are not watched", "watch", ({ applied }) => void (applied.state.unknown = "may not")],
  ["an hour is over", "due", ({ pass }) => pass(3_600_000)],
  ["its spec changed", "requested", () => standing({ generation: 2 })],
  ["its spec has not been seen", "requested", () => standing({ status: { observedGeneration: 0 } })],
  ["it is another resource", "not-seen", () => standing({ uid: "another" })],
  ["it is not ready", "requested", () => standing({ status: { conditions: [{ ...ready, status: "False" }] } })],
  [
    "somebody is at it",
    "requested",
    () => standing({ status: { conditions: [ready, { ...ready, type: "Reconciling" }] } }),
  ],
  ["somebody asked", "requested", () => standing({ annotations: { "kluctl.io/request-reconcile": "now" } })],
  ["a deploy is asked for in the older way", "requested", () => standing({ deployRequest: "2" })],
  ["it is being deleted", "requested", () => standing({ deletionTimestamp: "2026-01-01T00:00:00Z" })],
  [
    "somebody else deployed it",
    "not-seen",
    () => standing({ status: { lastDeployResult: aSummary({ id: "other" }) } }),
  ],
  ["somebody else rendered another", "not-seen", () => standing({ status: { lastObjectsHash: "hash-2" } })],
  ["somebody else saw another commit", "not-seen", () => standing({ status: { observedCommit: "c0" } })],
  ["somebody else saw drift", "not-seen", () => standing({ status: { lastDriftDetectionResultMessage: "1 chg" } })],
  ["somebody else could not render it", "not-seen", () => standing({ status: { lastPrepareError: "no" } })],
  ["its full interval is shorter", "due", () => standing({ annotations: { [annotation.fullInterval]: "4m" } })],
  ["it wants real loops only", "due", () => standing({ annotations: { [annotation.fullInterval]: "0" } })],
  ["its full interval is no duration", "settings", () => standing({ annotations: { [annotation.fullInterval]: "1" } })],
  [
    "another has its discriminator",
    "settings",
    ({ others }) => {
      const targetKey = { clusterId: "cluster-1", discriminator: "shop-prod" };
      others.push(standing({ key: { namespace: "shop", name: "copy" }, status: { targetKey } }));
      return standing({ status: { targetKey } });
    },
  ],
];

const credentials = { gitCredentials: [{ host: "git.example.com", secretName: "login" }] };

function standing({ spec, ...of }: Parameters<typeof aStanding>[0] & object = {}): Deployment {
  return aStanding({ ...of, spec: { ...credentials, ...spec } });
}

test.each(changes)("not skipped: %s", async (_, reason, change) => {
  const world = aSkippingWorld(standing());
  await world.loop();
  expect(await world.ask()).toBe("skipped");
  expect(await world.ask(change(world) ?? undefined)).toBe(reason);
});

/** What the last reconciliation found, and the reason to reconcile that it leaves, however often it is checked. */
const founds: readonly [string, CheckReason, Partial<Found>, Parameters<typeof aStanding>[0]?][] = [
  ["something was deployed", "requested", { deployed: true }],
  ["something differed, or was told", "requested", { clean: false }],
  ["variables from a web server", "project", project({ vars: [{ http: { url: "https://example.com" } }] })],
  ["variables of an item from a cluster", "project", project({ deployments: [{ vars: [{ clusterObject: {} }] }] })],
  [
    "variables of an include from a vault",
    "project",
    project({ deployments: [{ include: "x", renderedInclude: { vars: [{ vault: {} }] } }] }),
  ],
  ["variables of a kind that is not known", "project", project({ vars: [{ newSource: {} }] })],
  ["an artifact that is included", "project", project({ deployments: [{ oci: { url: "oci://r/x" } }] })],
  ["objects to delete", "project", project({ deployments: [{ deleteObjects: [{}] }] })],
  ["a Helm chart that is pulled", "project", project({ deployments: [chart({ repo: "r", skipPrePull: true })] })],
  ["a Helm chart from git", "project", project({ deployments: [chart({ git: { url: "https://g/x" } })] })],
  [
    "a result that tells nothing",
    "project",
    { rendered: { ...aRendered(), document: { target: { discriminator: "d" } } } },
  ],
  [
    "an include that was not known before",
    "refs",
    project({ deployments: [{ git: { url: "https://git.example.com/org/part", ref: { branch: "main" } } }] }),
  ],
  ["an object that is missing", "objects", objects(anObject({ new: true, rendered: "{}" }))],
  ["an object with another's label", "objects", objects(appliedObject("ConfigMap", "v1", { labels: {} }))],
  ["a hook", "objects", objects({ ...appliedObject(), hook: true })],
  ["a remote cluster", "not-seen", { identity: { secrets: [], cluster: { kubeconfig: "", fingerprint: "" } } }],
  ["no discriminator", "not-seen", { rendered: { ...aRendered(), document: {} } }],
  [
    "keys in a cloud",
    "settings",
    decrypting({ "sops.vault-token": "t" }),
    { spec: { decryption: { secretName: "login" } } },
  ],
  ["poking images", "settings", {}, { spec: { deployMode: "poke-images" } }],
  ["a dry run", "settings", {}, { spec: { dryRun: true } }],
  ["with health checks", "settings", {}, { annotations: { [annotation.healthChecks]: "[]" } }],
  ["waiting for others", "settings", {}, { annotations: { [annotation.dependsOn]: "base" } }],
  ["a prune to be confirmed", "settings", {}, { annotations: { [annotation.confirmPrune]: "x" } }],
  ["arguments with a clock", "settings", {}, { spec: { args: { at: "{{ time.now() }}" } } }],
  ["arguments with chance", "settings", {}, { spec: { args: { pick: "[1, 2] | map('random')" } } }],
];

function project(deployment: object): Partial<Found> {
  return { rendered: aRendered({}, deployment) };
}
function chart(helmChart: object) {
  return { path: "chart", renderedHelmChartConfig: { helmChart: { releaseName: "x", ...helmChart } } };
}
function objects(object: ReturnType<typeof anObject>): Partial<Found> {
  return { rendered: aRendered({ objects: [object] }) };
}
function decrypting(data: Record<string, string>): Partial<Found> {
  return { identity: { secrets: [], decryption: { data } } };
}

test.each(founds)("never skipped: %s", async (_, reason, found, of = {}) => {
  const world = aSkippingWorld(aStanding(of));
  await world.loop(found);
  expect(await world.ask()).toBe(reason);
  expect(await world.ask()).toBe(reason);
});

test("files that may render differently another time are a reason to reconcile, in included projects too", async () => {
  const world = aSkippingWorld();
  world.unsteady.templates = "app.yml may read a clock";
  await world.loop();
  expect(await world.ask()).toBe("project");

  const charts = aSkippingWorld();
  charts.unsteady.charts = "chart/templates/cert.yaml";
  await charts.loop();
  expect(await charts.ask()).toBe("skipped");
  const withChart = aSkippingWorld();
  withChart.unsteady.charts = "chart/templates/cert.yaml";
  await withChart.loop(project({ deployments: [chart({ path: "chart" })] }));
  expect(await withChart.ask()).toBe("project");
});

test("an include needs a second reconciliation as evidence, and has to stay at its commit", async () => {
  const world = aSkippingWorld();
  const git = { url: "https://git.example.com/org/part", ref: { branch: "part" } };
  world.sources.refs["refs/heads/part"] = "p1";
  const found = project({ deployments: [{ git, renderedInclude: { deployments: [] } }] });
  await world.loop(found);
  expect(await world.ask()).toBe("refs");
  await world.loop(found);
  expect(await world.ask()).toBe("skipped");
  expect(world.sources.released).toHaveLength(1);
  world.sources.refs["refs/heads/part"] = "p2";
  expect(await world.ask()).toBe("refs");
});

const alone = { source: { url: "https://git.example.com/org/shop", ref: { branch: "main" }, path: "apps/shop" } };

test("a move that affects no file of the project is skipped, and the status names the new commit", async () => {
  const world = aSkippingWorld(aStanding({ spec: alone }));
  await world.loop();
  world.sources.refs["refs/heads/main"] = "c2";
  world.sources.changed.paths = ["apps/search/app.yaml"];
  expect(await world.ask()).toBe("skipped");
  expect(world.moved.patches.at(-1)).toMatchObject({ observedCommit: "c2" });
  // The new commit is the starting point from now on.
  const at = (observedCommit: string) => aStanding({ spec: alone, status: { observedCommit } });
  expect(await world.ask(at("c2"))).toBe("skipped");
  expect(world.moved.patches.at(-1)).not.toHaveProperty("observedCommit");
  world.sources.refs["refs/heads/main"] = "c3";
  world.sources.changed.paths = ["apps/search/app.yaml", "apps/shop/app.yaml"];
  expect(await world.ask(at("c2"))).toBe("refs");
});

test("a skip uses a newer answer of the remote than the cached one, and never an older one", async () => {
  const world = aSkippingWorld(aStanding({ spec: alone }));
  await world.loop();
  world.sources.changed.paths = ["README.md"];
  expect(await world.ask()).toBe("skipped"); // and the remote's answer is cached
  const now = () => Date.parse("2026-01-01T00:00:00Z") + 5 * minute;
  expect(await world.skipping.skipCheck(aStanding({ spec: alone }), { commit: "c2", at: now() })).toBe("skipped");
  const moved = aStanding({ spec: alone, status: { observedCommit: "c2" } });
  expect(await world.skipping.skipCheck(moved, { commit: "c1", at: now() - minute })).toBe("later");
  world.sources.refs["refs/heads/main"] = "c2";
  world.pass(1);
  expect(await world.skipping.skipCheck(moved)).toBe("skipped");
  expect(world.moved.patches.at(-1)).not.toHaveProperty("observedCommit");
});

test("a move that another server skipped is checked by this one too, with a new answer", async () => {
  const world = aSkippingWorld(aStanding({ spec: alone }));
  await world.loop();
  world.sources.changed.paths = ["README.md"];
  expect(await world.ask()).toBe("skipped"); // and the remote's answer is cached
  world.pass(10_000);
  world.sources.refs["refs/heads/main"] = "c2";
  const moved = aStanding({ spec: alone, status: { observedCommit: "c2" } });
  expect(await world.skipping.skipCheck(moved)).toBe("skipped");
  expect(world.moved.patches.at(-1)).not.toHaveProperty("observedCommit");
  world.sources.changed.paths = ["apps/shop/app.yaml"];
  world.sources.refs["refs/heads/main"] = "c3";
  expect(await world.ask(moved)).toBe("refs");
});

test("a move affects a project that may read files outside its directory", async () => {
  const outside = aSkippingWorld(aStanding({ spec: alone }));
  outside.unsteady.outside = "deployment.yaml may reference files outside the project";
  const byArguments = aSkippingWorld(aStanding({ spec: { ...alone, args: { base: "../base" } } }));
  const everything = aSkippingWorld(aStanding());
  for (const world of [outside, byArguments, everything]) {
    await world.loop();
    expect(await world.ask()).toBe("skipped");
    world.sources.refs["refs/heads/main"] = "c2";
    world.sources.changed.paths = ["README.md"];
    expect(await world.ask()).toBe("refs");
  }
});

/** Creates a world whose project has these files, at `apps/shop`. */
async function aWorldOf(files: Record<string, string>, included: Record<string, string> = {}) {
  const [root, library] = [await useFiles(files), await useFiles(included)];
  const world = aSkippingWorld(aStanding({ spec: alone }), {
    findUnsteady: (dir, path, signal) => findUnsteadyFiles(dir === "/checkout" ? library : dir, path, signal),
  });
  const found = { checkout: { root, commit: "c1" } };
  world.sources.refs["refs/heads/part"] = "p1";
  return { ...world, loop: (more: Partial<Found> = {}) => world.loop({ ...found, ...more }) };
}

const library = { url: "https://git.example.com/org/part", ref: { branch: "part" } };

test.each([".helm-charts/db/templates/a.yaml", "apps/.helm-charts/db/templates/a.yaml"])(
  "a chart at %s is found from a project below it, and checked",
  async (path) => {
    const files = { "apps/shop/deployment.yaml": "deployments: [{path: app}]", [path]: "{{ randAlphaNum 8 }}" };
    const withChart = project({ deployments: [chart({ repo: "https://charts.example.com", chartVersion: "1.2.3" })] });
    const world = await aWorldOf(files);
    await world.loop(withChart);
    expect(await world.ask()).toBe("project");
    const steady = await aWorldOf({ ...files, [path]: "name: {{ .Release.Name }}" });
    await steady.loop(withChart);
    expect(await steady.ask()).toBe("skipped");
    const without = await aWorldOf(files);
    await without.loop();
    expect(await without.ask()).toBe("skipped");
  },
);

test.each<[string, Record<string, string>, Record<string, string>, object]>([
  ["a template of an included repository", {}, { "a.yml": '{{ load_template("../x.yml") }}' }, { git: library }],
  ["a value of an included repository", {}, { "vars.yml": "base: ../../base" }, { vars: [{ git: library }] }],
  ["a path that nobody can read before it is rendered", {}, {}, { include: "../../base" }],
  ["a file of variables that nobody can read before", {}, {}, { vars: [{ file: "x/../../vars.yml" }] }],
  ["the commit that last changed a file", { "a.yml": "at: {{ load_latest_git_commit('a.yml', 8) }}" }, {}, {}],
  ["git's own files", { "deployment.yaml": "vars:\n- file: .git/HEAD" }, {}, {}],
])("a project that reads %s is affected by changes outside its directory", async (_, files, included, item) => {
  const own = Object.fromEntries(Object.entries(files).map(([name, text]) => [`apps/shop/${name}`, text]));
  const world = await aWorldOf({ "apps/shop/app.yml": "kind: ConfigMap", ...own }, included);
  const found = project({ deployments: [item] });
  await world.loop(found);
  await world.loop(found); // the second reconciliation is the evidence for the include
  expect(await world.ask()).toBe("skipped");
  world.sources.refs["refs/heads/main"] = "c2";
  world.sources.changed.paths = ["README.md"];
  expect(await world.ask()).toBe("refs");
});

test("charts and keys in the project or beside it are no reason to reconcile", async () => {
  const world = aSkippingWorld(aStanding({ spec: { decryption: { secretName: "login" } } }));
  const found = project({ deployments: [chart({ repo: "https://charts.example.com", chartVersion: "1.2.3" })] });
  await world.loop({ ...found, ...decrypting({ "age.agekey": "k", "pgp.asc": "k" }) });
  expect(await world.ask()).toBe("skipped");
});

const workload = (resourceVersion: string, generation: number, labels: Record<string, string> = {}) => ({
  resourceVersion,
  generation,
  labels: { "kluctl.io/discriminator": "shop-prod", ...labels },
});

test("a status written by a controller is a reason to reconcile only if a validation depends on it", async () => {
  const { seenObjects } = await import("../../../../src/skipping/objects.ts");
  const versionsOf = (more: object) =>
    seenObjects([appliedObject("Deployment", "apps/v1", more)], "shop-prod", { applied: false }).versions;
  const found = { rendered: aRendered({ objects: [appliedObject("Deployment", "apps/v1", workload("10", 3))] }) };
  const validation = aValidation({ endTime: "2026-01-01T00:00:00Z" });
  const withStatus = (world: World) => (world.applied.state.objects = new Map(versionsOf(workload("11", 3))));

  const unvalidated = aSkippingWorld();
  await unvalidated.loop(found);
  withStatus(unvalidated);
  expect(await unvalidated.ask()).toBe("skipped");
  unvalidated.applied.state.objects = new Map(versionsOf(workload("12", 4)));
  expect(await unvalidated.ask()).toBe("objects");
  unvalidated.applied.state.objects = new Map(versionsOf(workload("12", 3, { team: "theirs" })));
  expect(await unvalidated.ask()).toBe("objects");

  const validated = aSkippingWorld(aStanding({ spec: { validate: true }, status: { lastValidateResult: validation } }));
  validated.applied.state.objects = new Map(versionsOf(workload("10", 3)));
  await validated.loop({ ...found, validated: true });
  expect(await validated.ask()).toBe("skipped");
  expect(validated.moved.patches.at(-1)).toHaveProperty("lastValidateResult");
  withStatus(validated);
  expect(await validated.ask()).toBe("objects");
});

test("a due validation runs, unless none of its objects has changed since the last one", async () => {
  const lastValidateResult = aValidation({ endTime: "2026-01-01T00:00:00Z" });
  const unproven = aSkippingWorld(aStanding({ spec: { validate: true }, status: { lastValidateResult } }));
  await unproven.loop({ validated: false });
  expect(await unproven.ask()).toBe("due");

  const asked = aSkippingWorld(
    aStanding({ spec: { validate: true, validateIntervalMs: 600_000 }, status: { lastValidateResult } }),
  );
  await asked.loop({ validated: true });
  expect(await asked.ask()).toBe("skipped");
  expect(asked.moved.patches.at(-1)).not.toHaveProperty("lastValidateResult");
  expect(await asked.ask()).toBe("due");
});

test("a due deploy and a change that waits for approval are not skipped", async () => {
  const deploys = aSkippingWorld(aStanding({ spec: { deployIntervalMs: 600_000 } }));
  await deploys.loop();
  expect([await deploys.ask(), await deploys.ask()]).toEqual(["skipped", "due"]);
  const waits = aSkippingWorld(aStanding({ spec: { manual: true, manualObjectsHash: "hash-0" } }));
  await waits.loop();
  expect(await waits.ask()).toBe("due");
});

test("a status that was written in the meantime is not overwritten", async () => {
  const world = aSkippingWorld();
  await world.loop();
  world.moved.allowed = false;
  expect(await world.ask()).toBe("later");
});

test("the skip check is not repeated for a job that this server queued itself", async () => {
  const world = aSkippingWorld(aStanding());
  expect(await world.ask()).toBe("not-seen");
  await world.loop();
  expect(await world.skipping.skipJob(aStanding(), {})).toBe("check");
  expect(await world.skipping.skipJob(aStanding(), {})).toBe("skipped");
});

test("a check accepts an answer of the remote by the deployment's interval, and none from before a known move", async () => {
  const world = aSkippingWorld(aStanding({ spec: alone }));
  const { required } = world.sources;
  await world.loop();
  expect(await world.ask()).toBe("skipped");
  expect(required.at(-1)).toEqual({ since: undefined, maxAgeMs: 90_000 });
  const often = aStanding({ spec: { ...alone, intervalMs: 60_000 } });
  expect(await world.skipping.skipJob(often, { since: "a push" })).toBe("skipped");
  expect(required.at(-1)).toEqual({ since: "a push", maxAgeMs: 18_000 });
  // Another server has recorded a commit, perhaps from a newer answer than this one has.
  expect(await world.ask(aStanding({ spec: alone, status: { observedCommit: "c0" } }))).toBe("skipped");
  expect(required.at(-1)).toEqual({ since: undefined, maxAgeMs: 5_000 });
});

const signal = new AbortController().signal;

test("a new commit is deployed without a comparison as long as the deployed objects are untouched", async () => {
  const world = aSkippingWorld();
  const why = (commit: string) => world.skipping.whyCompare(world.deployment, commit, signal);
  world.sources.changed.paths = ["app/config.yaml"];
  expect(await why("c2")).toBe("not reconciled by this server yet");
  await world.loop({ deployed: true });
  expect(await why("c2")).toBeUndefined();

  world.sources.failing.changes = new Error("no such commit");
  expect(await why("c3")).toBe("no such commit");

  const wary = { ...world.deployment, annotations: { [annotation.fullInterval]: "0" } };
  expect(await world.skipping.whyCompare(wary, "c2", signal)).toContain("full-interval");

  world.applied.change(settingsId, { ...settingsVersion, resourceVersion: "11" });
  expect(await why("c2")).toContain("changed");
});

test.each<[string, Partial<Found>]>([
  ["an item that is waited for", project({ deployments: [{ path: "db", waitReadiness: true }] })],
  [
    "an item of an include that is waited for",
    project({ deployments: [{ include: "x", renderedInclude: { deployments: [{ waitReadinessObjects: [{}] }] } }] }),
  ],
  [
    "an object that is waited for",
    objects(
      anObject({
        ...appliedObject(),
        rendered: JSON.stringify({ metadata: { annotations: { "kluctl.io/wait-readiness": "true" } } }),
      }),
    ),
  ],
])("%s is compared first if it is not known to be ready", async (_, found) => {
  const world = aSkippingWorld();
  world.sources.changed.paths = ["app/config.yaml"];
  await world.loop(found);
  expect(await world.skipping.whyCompare(world.deployment, "c2", signal)).toContain("wait");
});
