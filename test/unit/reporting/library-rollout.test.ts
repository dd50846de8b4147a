/** The comment of a library's merged pull request follows the deployments that include the library. */
import { expect, test } from "vitest";
import { ForgeError, RemoteBusyError, SourceError } from "../../../src/errors.ts";
import { annotation, type Condition, type Deployment, type DeploymentStatus } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import type { Report } from "../../../src/model/report.ts";
import { createMarker } from "../../../src/reporting/marker.ts";
import { createReportWriter } from "../../../src/reporting/write-report.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { aPreview, aReport, fakeQueue, fakeReports, headCommit } from "../../support/fake-reports.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";

const key = { forge: "gitea", repoName: "org/library", number: 7 };
const url = "https://git.example.com/org/library";
const library = repoId(url)!;
const [before, merge, later] = ["0".repeat(40), "e".repeat(40), "f".repeat(40)] as const;
const seenAt = Date.parse("2026-01-01T00:01:00Z");

const condition = (type: string, status: Condition["status"], message = ""): Condition => ({
  ...{ type, status, message, reason: "Any", lastTransitionTime: "2026-01-01T00:00:00Z" },
});

interface About {
  readonly has?: string;
  readonly ref?: string;
  readonly isShown?: boolean;
  readonly spec?: Partial<Deployment["spec"]>;
  readonly status?: Partial<DeploymentStatus>;
  readonly more?: Readonly<Record<string, string>>;
}

/** A deployment that includes the library, and what it rendered last. */
function aConsumer(name: string, { has, ref, isShown = true, spec, status, more }: About = {}) {
  const base = aDeployment();
  return aDeployment({
    key: { namespace: "shop", name },
    ...(spec && { spec: { ...base.spec, ...spec } }),
    status: { observedCommit: "c".repeat(40), conditions: [condition("Ready", "True")], ...status },
    annotations: {
      [annotation.includes]: ref === undefined ? url : `${url} ${ref}`,
      ...(isShown && { [annotation.previewIn]: url }),
      ...(has !== undefined && { [annotation.includedCommits]: `${url} refs/heads/main ${has}` }),
      ...more,
    },
  });
}

async function setUp(deployments: readonly Deployment[], overrides: Partial<Report> = {}) {
  const forge = fakeForge({});
  forge.put(7, { key, state: "merged", head: headCommit, repoUrls: [url], mergeCommit: merge, closedAt: seenAt });
  const reports = fakeReports();
  const previews = [aPreview({ includes: true })];
  const merged = { repo: library, state: "merged", mergeCommit: merge, previews, author: "ann" } as const;
  await reports.save(aReport({ pullRequest: key, ...merged, ...overrides }));
  const rollingOutSince: number[] = [];
  const setRollingOut: typeof reports.setRollingOut = (of, repo, mergedAt) => {
    if (mergedAt !== undefined) rollingOutSince.push(mergedAt);
    return reports.setRollingOut(of, repo, mergedAt);
  };
  const cluster = fakeDeployments(...deployments);
  const sources = fakeSources({ "refs/heads/main": merge });
  sources.lineage.set(merge, [merge, before]).set(later, [later, merge, before]);
  let passed = 0;
  let synced = true;
  const write = createReportWriter({
    forges: new Map([["gitea", forge]]),
    reports: { ...reports, setRollingOut },
    queue: fakeQueue(),
    deployments: { ...cluster, synced: () => synced },
    secrets: fakeSecrets(),
    sources,
    speaksFor: () => true,
    render: (_report, { marker }) => marker,
    markerOf: () => Promise.resolve(createMarker({ secrets: ["a secret of the webhook"], instance: "a", owner: "" })),
    clock: { now: () => seenAt + passed },
    log: silentLog,
  });
  return {
    ...{ forge, reports, sources, cluster, rollingOutSince },
    write: () => write({ kind: "report", pullRequest: key }),
    pass: (ms: number) => void (passed += ms),
    unsync: () => void (synced = false),
    /** By deployment: the texts of its steps. */
    async steps() {
      const { rollout = [] } = (await reports.find(key))!;
      return Object.fromEntries(rollout.map((line) => [line.deployment, line.steps.map(({ text }) => text)]));
    },
    isFollowed: async () => (await reports.rollingOut(library)).length > 0,
    put: (deployment: Deployment) => void cluster.objects.set(`shop/${deployment.key.name}`, deployment),
  };
}

test("each deployment is queued until it has the merge, and followed until it is deployed", async () => {
  const { write, steps, put, isFollowed, forge } = await setUp([aConsumer("prod", { has: before })]);
  await write();
  expect(await steps()).toEqual({ "": ["queued"], "shop/prod": ["queued"] });
  expect(await isFollowed()).toBe(true);

  put(aConsumer("prod", { has: merge, status: { conditions: [condition("Reconciling", "True")] } }));
  await write();
  put(aConsumer("prod", { has: merge }));
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["queued", "being deployed", "deployed"] });
  expect(await isFollowed()).toBe(false);

  // What happens to it later is no step of this merge.
  put(aConsumer("prod", { has: merge, status: { conditions: [condition("Reconciling", "True")] } }));
  await write();
  put(aConsumer("prod", { has: later }));
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["queued", "being deployed", "deployed"] });
  expect(forge.statuses.filter(({ commit }) => commit.commit === merge)).toEqual([]);
});

test("a deployment that changes while git is asked about it is followed by then", async () => {
  const { write, isFollowed, sources, put } = await setUp([aConsumer("prod", { has: before })]);
  const followed: boolean[] = [];
  const { heads } = sources;
  sources.heads = async (...asked) => {
    followed.push(await isFollowed());
    put(aConsumer("prod", { has: merge }));
    return heads(...asked);
  };
  await write();
  expect(followed).toContain(true);
  expect(followed).not.toContain(false);
  expect(await isFollowed()).toBe(true);
});

test("git is asked about each deployment once for what is new", async () => {
  const { write, steps, put, sources } = await setUp([aConsumer("prod", { has: before })]);
  await write();
  const asked: string[] = [];
  const { contains } = sources;
  sources.contains = (library, commit, ...rest) => {
    asked.push(commit);
    return contains(library, commit, ...rest);
  };
  put(aConsumer("prod", { has: later }));
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["queued", "deployed with fffffff"] });
  expect(asked).toEqual([later]);
});

const healthy = { [annotation.healthChecks]: "- kind: Deployment" };
const pending = { ...condition("Ready", "Unknown"), reason: "HealthCheckPending" };
const failing = { conditions: [condition("Ready", "False", "ConfigMap a: refused")] };

test.each<[string, About, string, boolean]>([
  ["has a newer commit that contains the merge", { has: later }, "deployed with fffffff", false],
  ["has no record yet", {}, "queued", true],
  ["is suspended before the merge", { has: before, spec: { suspend: true } }, "suspended: nothing is deployed", true],
  [
    "waits for health",
    { has: merge, more: healthy, status: { conditions: [pending] } },
    "deployed, waiting for health checks",
    true,
  ],
  ["is healthy", { has: merge, more: healthy }, "deployed, healthy", false],
  ["fails", { has: merge, status: failing }, "ConfigMap a: refused", true],
  [
    "cannot be rendered any more",
    { has: merge, status: { lastPrepareError: "deployment.yaml: no such file" } },
    "cannot be rendered: deployment.yaml: no such file",
    true,
  ],
  ["fails with a newer commit", { has: later, status: failing }, "superseded by a newer commit", true],
])("what %s says so", async (_, about, text, isFollowed) => {
  const world = await setUp([aConsumer("prod", about)]);
  await world.write();
  expect((await world.steps())["shop/prod"]).toEqual([text]);
  expect(await world.isFollowed()).toBe(isFollowed);
});

test.each<[string, Deployment]>([
  ["did not opt in", aConsumer("other", { has: merge, isShown: false })],
  ["includes another branch", aConsumer("other", { has: merge, ref: "refs/heads/release" })],
  ["is pinned to a tag", aConsumer("other", { ref: "refs/tags/v1" })],
  ["switched previews off", aConsumer("other", { has: merge, more: { [annotation.preview]: "false" } })],
])("a deployment that %s is neither named nor counted", async (_, other) => {
  const { write, steps } = await setUp([aConsumer("prod", { has: merge }), other]);
  await write();
  expect(await steps()).toEqual({ "": ["deployed"], "shop/prod": ["deployed"] });
});

test("a merge into another branch than the default branch is not looked for where the default branch is included", async () => {
  const { write, steps, forge, reports } = await setUp([aConsumer("prod", { has: before })]);
  forge.put(7, { key, state: "merged", baseBranch: "release", repoUrls: [url], mergeCommit: merge });
  await reports.save({ ...(await reports.find(key))!, baseBranch: "release" });
  await write();
  expect(await steps()).toEqual({});
});

test("a deployment whose owner withdraws the annotation disappears from the record", async () => {
  const { write, steps, put } = await setUp([aConsumer("prod", { has: merge }), aConsumer("other", { has: merge })]);
  await write();
  expect(await steps()).toHaveProperty("shop/other");
  put(aConsumer("other", { has: merge, isShown: false }));
  await write();
  expect(Object.keys(await steps())).toEqual(["", "shop/prod"]);
});

test("while the deployments are not loaded, none disappears, and the host is not asked", async () => {
  const { write, steps, unsync, cluster, forge, reports } = await setUp([aConsumer("prod", { has: before })]);
  await write();
  await reports.save({ ...(await reports.find(key))!, written: undefined });
  unsync();
  cluster.objects.clear();
  forge.calls.length = 0;
  expect(await write()).toMatchObject({ kind: "later" });
  expect(forge.calls).toEqual([]);
  expect(await steps()).toHaveProperty("shop/prod");
});

test("a merge that a force push removed from the branch is waited for no longer", async () => {
  const { write, steps, sources, isFollowed } = await setUp([aConsumer("prod", { has: before })]);
  await write();
  sources.refs["refs/heads/main"] = before;
  await write();
  expect((await steps())["shop/prod"]).toEqual(["queued", "the branch no longer contains this commit"]);
  expect(await isFollowed()).toBe(false);
});

test("without an answer of git nothing is said, and git is asked again later", async () => {
  const { write, steps, sources, isFollowed } = await setUp([aConsumer("prod", { has: later })]);
  sources.failing.error = new Error("no route to host");
  expect(await write()).toMatchObject({ kind: "later", afterMs: 60_000 });
  expect(await steps()).toEqual({});
  expect(await isFollowed()).toBe(true);
  delete sources.failing.error;
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["deployed with fffffff"] });
});

test("while git does not answer, it is asked less and less often, and no longer than the merge is followed", async () => {
  const { write, sources, pass } = await setUp([aConsumer("prod", { has: later })]);
  sources.failing.error = new Error("no route to host");
  await write();
  pass(3_600_000);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 900_000 });
  pass(24 * 3_600_000);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 3_600_000 });
  pass(13 * 24 * 3_600_000);
  expect(await write()).toEqual({ kind: "done" });
});

test("what only a person can mend is said, and git is not asked again by itself", async () => {
  const { write, steps, sources, isFollowed } = await setUp([aConsumer("prod", { has: later })]);
  sources.failing.error = new SourceError("unauthorized", "the token has expired");
  expect(await write()).toEqual({ kind: "done" });
  const text = "not known: it cannot read this repository";
  expect(await steps()).toEqual({ "": [text], "shop/prod": [text] });
  expect(await isFollowed()).toBe(true);
  delete sources.failing.error;
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": [text, "deployed with fffffff"] });
});

test("the host is asked again only when the rollout has something new", async () => {
  const { write, steps, forge, put, sources } = await setUp([aConsumer("prod", { has: before })]);
  await write();
  forge.calls.length = 0;
  expect(await write()).toEqual({ kind: "done" });
  sources.failing.error = new Error("no route to host");
  expect(await write()).toMatchObject({ kind: "later", afterMs: 60_000 });
  expect(forge.calls).toEqual([]);
  delete sources.failing.error;
  put(aConsumer("prod", { has: merge }));
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["queued", "deployed"] });
  expect(forge.calls).toContain("ownComments");
});

test.each([false, true])("what the host did not accept is written again (written before: %s)", async (isWritten) => {
  const { write, forge, put } = await setUp([aConsumer("prod", { has: before })]);
  if (isWritten) {
    await write();
    put(aConsumer("prod", { has: merge }));
  }
  const { ownComments } = forge;
  forge.ownComments = () => Promise.reject(new ForgeError("unreachable", "no route to host"));
  expect(await write()).toMatchObject({ kind: "later" });
  forge.ownComments = ownComments;
  forge.calls.length = 0;
  await write();
  expect(forge.calls).toContain("ownComments");
});

test("a slow git host does not occupy the workers that report to all hosts", async () => {
  const { write, steps, sources, isFollowed } = await setUp([aConsumer("prod", { has: before })]);
  const { heads, contains } = sources;
  const busy = new RemoteBusyError("git.example.com/org/library", 20_000);
  sources.contains = (_library, _commit, _ancestor, _signal, options) =>
    options?.leaves ? Promise.reject(busy) : new Promise(() => {});
  expect(await write()).toMatchObject({ kind: "later" });
  sources.heads = (_library, _freshness, _signal, options) =>
    options?.leaves ? Promise.reject(busy) : new Promise(() => {});
  expect(await write()).toMatchObject({ kind: "later" });
  expect(await steps()).toEqual({});
  Object.assign(sources, { heads, contains });
  await write();
  expect(await steps()).toMatchObject({ "shop/prod": ["queued"] });
  expect(await isFollowed()).toBe(true);
});

test("a merge is dated by the host, however late it is recorded", async () => {
  const { write, pass, rollingOutSince } = await setUp([aConsumer("prod", { has: before })]);
  pass(15 * 24 * 3_600_000);
  await write();
  expect(rollingOutSince).toEqual([seenAt]);
});

test("of a record that names commits which are not there, few are looked up, and not each time", async () => {
  const lines = Array.from({ length: 20 }, (_, at) => `${url} refs/heads/main ${String(at).padStart(40, "a")}`);
  const { write, steps, sources } = await setUp([
    aConsumer("prod", { more: { [annotation.includedCommits]: lines.join("\n") } }),
  ]);
  const looked: string[] = [];
  const contains = sources.contains.bind(sources);
  sources.contains = (repository, commit, ancestor) => {
    if (commit === merge) return contains(repository, commit, ancestor);
    looked.push(commit);
    return Promise.reject(new SourceError("ref-not-found", "there is no such commit"));
  };
  await write();
  await write();
  expect(looked).toHaveLength(3);
  expect(await steps()).toMatchObject({ "shop/prod": ["queued"] });
});

test.each<[string, Partial<Report>, string, number]>([
  ["the merge fails", {}, merge, 1],
  ["a newer commit fails", {}, later, 0],
  ["it failed without the merge too", { previews: [aPreview({ includes: true, failed: "run" })] }, merge, 0],
])("the author hears once if %s, and not of what others broke", async (_, report, has, mentions) => {
  const { write, pass, forge } = await setUp([aConsumer("prod", { has, status: failing })], report);
  await write();
  pass(300_000);
  await write();
  await write();
  const bodies = [...forge.comments.values()].flat().map(({ body }) => body);
  expect(bodies.filter((body) => body.includes("@ann the rollout of `eeeeeee` failed in `shop/prod`"))).toHaveLength(
    mentions,
  );
});
