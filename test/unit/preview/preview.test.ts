import { describe, expect, test, vi } from "vitest";
import { KilledError, PrepareError, QueueUnavailableError, SourceError, SupersededError } from "../../../src/errors.ts";
import { createLimit } from "../../../src/limit.ts";
import { type Deployment, type PullRequest, annotation } from "../../../src/model.ts";
import type { Run } from "../../../src/ports.ts";
import { createPreview, type PreviewDeps } from "../../../src/preview/preview.ts";
import type { Attempt } from "../../../src/reconcile/reconcile.ts";
import type { Report } from "../../../src/report.ts";
import { aDeployment, anObject, aResult, aSpec, aSummary } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { fakeDeployments, fakeKluctl, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const head = "1".repeat(40);
const base = "b".repeat(40);
const startedAt = Date.parse("2026-01-01T00:00:00Z");
const changed = anObject({
  changes: [{ type: "update", jsonPath: "data.a", oldValue: "1", newValue: "2", unifiedDiff: "-1\n+2" }],
});
const aChange = aResult({ objects: [changed] });

interface Options extends Partial<Pick<PreviewDeps, "forges" | "kluctl" | "limit" | "settings" | "secrets">> {
  pullRequest?: Partial<PullRequest>;
  previous?: Report;
}

/** One pull request into `main` of the repository that the deployments follow, and a clock that a test moves. */
function aWorld(deployments: Deployment[], { pullRequest, previous, ...overrides }: Options = {}) {
  const forge = fakeForge();
  forge.put(7, pullRequest);
  const cluster = fakeDeployments(...deployments);
  const sources = fakeSources({ "refs/heads/main": base });
  const kluctl = fakeKluctl({ diff: aChange });
  const reports = fakeReports();
  const queue = fakeQueue();
  const told: Report[] = [];
  const wakers: (() => void)[] = [];
  const time = { now: startedAt, synced: true };
  if (previous) void reports.save(previous);
  const preview = createPreview({
    forges: new Map([["gitea", forge]]),
    deployments: { ...cluster, synced: () => time.synced },
    secrets: fakeSecrets(),
    sources,
    kluctl,
    reports: {
      ...reports,
      save(report) {
        told.push(report);
        return reports.save(report);
      },
    },
    queue,
    limit: (work) => work(),
    settings: {},
    clusterName: () => Promise.resolve("eu-1"),
    newId: () => "id-1",
    clock: { now: () => time.now },
    log: silentLog,
    sleep: (ms, signal) =>
      new Promise<void>((resolve, reject) => {
        expect(ms).toBe(2_000);
        wakers.push(resolve);
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
    ...overrides,
  });
  return {
    ...{ forge, cluster, sources, kluctl, reports, queue, told, time },
    async twoSecondsPass() {
      await vi.waitFor(() => expect(wakers).not.toEqual([]));
      for (const wake of wakers) wake();
    },
    previews: () => told.at(-1)?.previews ?? [],
    run: (attempt: Partial<Attempt> = {}) =>
      preview(
        { kind: "preview", pullRequest: key, cause: "pull-request" },
        { attempt: 1, lastAttempt: false, signal: new AbortController().signal, ...attempt },
      ),
  };
}

const named = (name: string, overrides: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ key: { namespace: "shop", name }, ...overrides });

const at = (path: string, rest: Partial<Deployment["spec"]["source"]> = {}) => ({
  source: { ...aSpec().source, path, ...rest },
});

/** A kluctl whose runs end when a test says so, or when they are aborted and have taken their time to end. */
function slowKluctl() {
  const runs: { run: Run; finish: () => void }[] = [];
  let running = 0;
  const port: PreviewDeps["kluctl"] = {
    diff: (run, _options, signal) =>
      new Promise((resolve, reject) => {
        running++;
        const end = (settle: () => void) => () => setImmediate(() => (running--, settle()));
        signal.addEventListener(
          "abort",
          end(() => reject(new KilledError("stopped", "kluctl was stopped"))),
        );
        runs.push({ run, finish: end(() => resolve(aChange)) });
      }),
  };
  return { ...port, runs, running: () => running };
}

test("an open pull request is merged, compared with the cluster, and written down for others to tell", async () => {
  const { run, told, sources, kluctl, queue, cluster, time, reports } = aWorld([
    named("prod", { spec: { ...at("app"), target: "prod", serviceAccountName: "deployer", timeoutMs: 60_000 } }),
  ]);
  expect(await run()).toEqual({ kind: "done" });
  expect(sources.merges).toEqual([{ url: "https://git.example.com/org/shop", credentials: [], head, base }]);
  expect(kluctl.runs).toEqual([
    {
      command: "diff",
      run: expect.objectContaining({
        deployment: { namespace: "shop", name: "prod" },
        ...{ projectDir: "/merge/app", target: "prod", timeoutMs: 60_000, cold: true, held: undefined },
        impersonate: "system:serviceaccount:shop:deployer",
      }),
    },
  ]);
  expect(told).toEqual([
    {
      ...{ v: 1, pullRequest: key, url: "https://git.example.com/org/shop/pulls/7", repo: "git.example.com/org/shop" },
      ...{ baseBranch: "main", head, base, state: "done", earlierHeads: [], restarts: 0 },
      ...{ startedAt: time.now, finishedAt: time.now },
      previews: [
        expect.objectContaining({
          ...{ deployment: { namespace: "shop", name: "prod" }, target: "prod", cluster: "eu-1", state: "done" },
          ...{
            suspended: false,
            drift: 0,
            counts: { new: 0, changed: 1, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
          },
          objects: [expect.objectContaining({ action: "changed" })],
        }),
      ],
    },
  ]);
  expect(await reports.find(key)).toEqual(told[0]);
  expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
  expect(sources.released).toEqual([`merge of ${head}`]);
  expect([cluster.patches, cluster.events]).toEqual([[], []]);
});

describe("nothing is said", () => {
  test("where there is no login for the forge's API", async () => {
    const { run, told } = aWorld([named("prod")], { forges: new Map() });
    expect(await run()).toEqual({ kind: "skipped", why: "there is no login for the API of forge gitea" });
    expect(told).toEqual([]);
  });

  test("of a pull request that is not there", async () => {
    const { run, forge, told } = aWorld([named("prod")]);
    forge.pullRequests.clear();
    expect(await run()).toEqual({ kind: "skipped", why: "there is no such pull request" });
    expect(told).toEqual([]);
  });

  test("before all deployments are known", async () => {
    const { run, time, told } = aWorld([named("prod")]);
    time.synced = false;
    expect(await run()).toMatchObject({ kind: "later", afterMs: 1_000 });
    expect(told).toEqual([]);
  });
});

describe("when no deployment is concerned", () => {
  test("git is not asked, and the report says so by having no previews", async () => {
    const { run, told, sources, queue } = aWorld([named("prod", { spec: at("", { ref: { branch: "next" } }) })]);
    expect(await run()).toEqual({ kind: "done" });
    expect(told).toMatchObject([{ state: "done", repo: "git.example.com/org/shop", base: undefined, previews: [] }]);
    expect(queue.requests).toHaveLength(1);
    expect(sources.merges).toEqual([]);
  });

  test("the report names no repository if none follows it", async () => {
    const { run, told } = aWorld([]);
    expect(await run()).toEqual({ kind: "done" });
    expect(told[0]?.repo).toBeUndefined();
  });

  test("because only other files change, the base is known all the same", async () => {
    const { run, told, sources, kluctl } = aWorld([named("prod", { spec: at("app") })]);
    sources.nextMerge.changed = { complete: true, paths: ["README.md"] };
    await run();
    expect(told).toMatchObject([{ state: "done", base, previews: [] }]);
    expect(kluctl.runs).toEqual([]);
    expect(sources.released).toHaveLength(1);
  });

  test("because the default branch is another one, nothing is merged", async () => {
    const { run, told, sources } = aWorld([named("prod", { spec: at("", { ref: {} }) })], {
      pullRequest: { baseBranch: "next" },
    });
    sources.refs["refs/heads/next"] = "n".repeat(40);
    await run();
    expect(told).toMatchObject([{ base: "n".repeat(40), previews: [] }]);
    expect(sources.merges).toEqual([]);
  });
});

test("a fork's code is neither fetched nor rendered", async () => {
  const { run, told, sources, kluctl } = aWorld([named("prod")], { pullRequest: { fork: true } });
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([{ state: "done", obstacle: { kind: "fork" }, base: undefined, previews: [] }]);
  expect([sources.merges, kluctl.runs]).toEqual([[], []]);
});

test("a fork that concerns nobody is nobody's obstacle", async () => {
  const { run, told } = aWorld([], { pullRequest: { fork: true } });
  await run();
  expect(told[0]?.obstacle).toBeUndefined();
});

test("a conflict is said, and nothing is compared", async () => {
  const { run, told, sources, kluctl } = aWorld([named("prod")]);
  sources.nextMerge.conflict = ["app/a.yaml"];
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([
    { state: "done", base, obstacle: { kind: "conflict", paths: ["app/a.yaml"] }, previews: [] },
  ]);
  expect(kluctl.runs).toEqual([]);
});

describe("a deployment", () => {
  async function previewOf(overrides: Parameters<typeof aDeployment>[0], result = aChange) {
    const { run, previews } = aWorld([named("prod", overrides)], { kluctl: fakeKluctl({ diff: result }) });
    await run();
    return previews()[0];
  }

  test("that is suspended is compared and marked", async () => {
    expect(await previewOf({ spec: { suspend: true } })).toMatchObject({ state: "done", suspended: true });
  });

  test("that opts out is left alone, whatever it says about webhooks", async () => {
    expect(await previewOf({ annotations: { [annotation.preview]: "false" } })).toBeUndefined();
    expect(await previewOf({ annotations: { [annotation.webhooks]: "false" } })).toMatchObject({ state: "done" });
  });

  test("that has drifted says in how many objects", async () => {
    const drifted = { endTime: "2026-01-01T00:00:00Z", document: { objects: [{}, {}, {}] } };
    expect(await previewOf({ status: { lastDriftDetectionResult: drifted } })).toMatchObject({ drift: 3 });
  });

  test.each([
    ["a change will wait after the merge", {}, "after-merge"],
    ["a change waits already", { lastObjectsHash: "h2" }, "pending"],
    ["what was rendered last is approved", { lastObjectsHash: "h1" }, "after-merge"],
    [
      "what was rendered last is deployed",
      { lastObjectsHash: "h2", lastDeployResult: aSummary({ document: { renderedObjectsHash: "h2" } }) },
      "after-merge",
    ],
  ] as const)("with manual approval: %s", async (_when, status, approval) => {
    expect(await previewOf({ spec: { manual: true, manualObjectsHash: "h1" }, status })).toMatchObject({ approval });
  });

  test("with manual approval has nothing to approve where the merge changes nothing", async () => {
    expect((await previewOf({ spec: { manual: true } }, aResult()))?.approval).toBeUndefined();
    expect((await previewOf({ spec: { manual: true }, status: { lastObjectsHash: "h2" } }, aResult()))?.approval).toBe(
      "pending",
    );
  });

  test.each([
    [
      { serviceAccount: "previewer", defaultServiceAccount: "usual" },
      "deployer",
      "system:serviceaccount:shop:previewer",
    ],
    [{ defaultServiceAccount: "usual" }, "deployer", "system:serviceaccount:shop:deployer"],
    [{ defaultServiceAccount: "usual" }, undefined, "system:serviceaccount:shop:usual"],
    [{}, undefined, undefined],
  ])("with %o and service account %s is compared as %s", async (settings, serviceAccountName, user) => {
    const { run, kluctl } = aWorld([named("prod", { spec: { serviceAccountName } })], { settings });
    await run();
    expect(kluctl.runs[0]?.run.impersonate).toBe(user);
  });
});

describe("what fails", () => {
  test("for one deployment is told, and the others are compared", async () => {
    const kluctl: PreviewDeps["kluctl"] = {
      diff: ({ deployment: { name } }) =>
        name === "b" ? Promise.reject(new PrepareError("template failed: app.yaml:3")) : Promise.resolve(aChange),
    };
    const { run, previews, sources } = aWorld(
      [named("c", { spec: at("gone") }), named("b"), named("a"), named("d", { spec: at("") })],
      { kluctl },
    );
    sources.nextMerge.paths = [""];
    expect(await run()).toEqual({ kind: "done" });
    expect(previews().map(({ deployment, state, failure }) => [deployment.name, state, failure])).toEqual([
      ["a", "done", undefined],
      ["b", "failed", "template failed: app.yaml:3"],
      ["c", "failed", "there is no directory gone"],
      ["d", "done", undefined],
    ]);
  });

  test("is told without the logins", async () => {
    const password = "a-password-of-git";
    const { run, previews, kluctl } = aWorld([named("a", { spec: { gitCredentials: [{ secretName: "git" }] } })], {
      secrets: fakeSecrets({ "shop/git": { username: "bot", password } }),
    });
    kluctl.answers.diff = new PrepareError(`cannot clone https://bot:${password}@git.example.com/x`);
    await run();
    expect(previews()[0]).toMatchObject({ state: "failed", failure: expect.stringContaining("cannot clone") });
    expect(JSON.stringify(previews())).not.toContain(password);
  });

  test("because of a missing Secret fails for those that name it", async () => {
    const { run, previews, sources } = aWorld([
      named("a", { spec: { gitCredentials: [{ secretName: "git" }] } }),
      named("b"),
      named("c", { spec: { ...at("elsewhere"), gitCredentials: [{ secretName: "git" }] } }),
    ]);
    sources.nextMerge.changed = { complete: true, paths: ["app/a.yaml"] };
    expect(await run()).toEqual({ kind: "done" });
    expect(previews()).toMatchObject([
      {
        deployment: { name: "a" },
        state: "failed",
        failure: expect.stringContaining("secret shop/git does not exist"),
      },
      { deployment: { name: "b" }, state: "done" },
    ]);
  });

  test("for a moment only is told, and tried again", async () => {
    const { run, told, kluctl } = aWorld([named("a")]);
    kluctl.answers.diff = new KilledError("signal", "kluctl broke off");
    expect(await run()).toEqual({ kind: "failed", retry: "soon", message: "1 of 1 previews failed" });
    expect(told).toMatchObject([{ state: "done", previews: [{ state: "failed", failure: "kluctl broke off" }] }]);
  });

  test("before anything could be compared is tried again, and told at the last try", async () => {
    const { run, told, sources } = aWorld([named("a")]);
    sources.failing.error = new SourceError("unreachable", "git.example.com does not answer");
    const failed = { kind: "failed", retry: "soon", message: "git.example.com does not answer" };
    expect(await run()).toEqual(failed);
    expect(told).toEqual([]);
    expect(await run({ attempt: 5, lastAttempt: true })).toEqual(failed);
    const obstacle = { kind: "failed", message: "git.example.com does not answer" };
    expect(told).toMatchObject([{ state: "done", obstacle, previews: [] }]);
  });

  test("because the base branch is not there, perhaps not yet, is tried again", async () => {
    const { run, told, sources } = aWorld([named("a")]);
    delete sources.refs["refs/heads/main"];
    expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
    await run({ lastAttempt: true });
    expect(told).toMatchObject([{ obstacle: { message: "there is no branch main to merge into" } }]);
  });

  test("for one of several logins does not keep the others waiting for ever", async () => {
    const { run, told, sources } = aWorld([
      named("a"),
      named("b", { spec: at("", { url: "git@git.example.com:org/shop" }) }),
    ]);
    const { heads } = sources;
    sources.heads = (repository, ...rest) =>
      repository.url.startsWith("git@")
        ? Promise.reject(new SourceError("unreachable", "port 22 does not answer"))
        : heads(repository, ...rest);
    expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
    expect(told).toEqual([]);
    await run({ lastAttempt: true });
    expect(told).toMatchObject([
      { base, previews: [{ state: "done" }, { state: "failed", failure: "port 22 does not answer" }] },
    ]);
    expect(sources.released).toHaveLength(2);
  });
});

describe("a forge", () => {
  test.each([
    ["unreachable", undefined, { kind: "later", afterMs: 15_000 }],
    ["rate-limited", 7_000, { kind: "later", afterMs: 7_000 }],
    ["rate-limited", undefined, { kind: "later", afterMs: 60_000 }],
    ["unauthorized", undefined, { kind: "failed", retry: "person" }],
  ] as const)("that is %s (%s ms): %o", async (problem, retryAfterMs, outcome) => {
    const { run, forge, told } = aWorld([named("a")]);
    forge.fail(problem, retryAfterMs);
    expect(await run()).toMatchObject(outcome);
    expect(told).toEqual([]);
  });
});

describe("work that takes long", () => {
  test("is told after two seconds, with what is known, and again at the end", async () => {
    const kluctl = slowKluctl();
    const { run, told, queue, twoSecondsPass } = aWorld([named("a"), named("b")], { kluctl });
    const running = run();
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(2));
    kluctl.runs[0]?.finish();
    await vi.waitFor(() => expect(kluctl.running()).toBe(1));
    expect(told).toEqual([]);
    await twoSecondsPass();
    await vi.waitFor(() => expect(queue.requests).toHaveLength(1));
    expect(told).toMatchObject([
      { state: "working", base, previews: [{ state: "done" }, { state: "working", cluster: "eu-1" }] },
    ]);
    expect(told[0]?.finishedAt).toBeUndefined();
    kluctl.runs[1]?.finish();
    expect(await running).toEqual({ kind: "done" });
    expect(told.slice(1)).toMatchObject([{ state: "done", previews: [{ state: "done" }, { state: "done" }] }]);
    expect(queue.requests).toHaveLength(2);
  });

  test("in git is told before it is known whom it concerns, and once more when it is", async () => {
    const kluctl = slowKluctl();
    const { run, told, sources, twoSecondsPass } = aWorld([named("a")], { kluctl });
    const merging = Promise.withResolvers<void>();
    const { merge } = sources;
    sources.merge = (...all) => merging.promise.then(() => merge(...all));
    const running = run();
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toMatchObject([{ state: "working", previews: [] }]));
    merging.resolve();
    await vi.waitFor(() => expect(told[1]).toMatchObject({ state: "working", base, previews: [{ state: "working" }] }));
    kluctl.runs[0]?.finish();
    await running;
    expect(told).toHaveLength(3);
  });

  test("goes on when it cannot be told early", async () => {
    const kluctl = slowKluctl();
    const { run, reports, told, twoSecondsPass } = aWorld([named("a")], { kluctl });
    const { save } = reports;
    reports.save = () => Promise.reject(new QueueUnavailableError("Redis is away"));
    const running = run();
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1));
    await twoSecondsPass();
    await vi.waitFor(() => expect(told).toHaveLength(1));
    reports.save = save;
    kluctl.runs[0]?.finish();
    expect(await running).toEqual({ kind: "done" });
  });

  test("of twenty deployments runs side by side within the limit, on one merge, and is told once", async () => {
    const kluctl = slowKluctl();
    const limit = createLimit(4);
    const twenty = Array.from({ length: 20 }, (_, i) => named(`d${i + 10}`));
    const { run, told, sources } = aWorld(twenty, { kluctl, limit: (work, options) => limit.run(work, options) });
    const running = run();
    for (let finished = 0; finished < 20; finished += 4) {
      await vi.waitFor(() => expect(kluctl.runs).toHaveLength(finished + 4));
      expect(kluctl.running()).toBe(4);
      for (const { finish } of kluctl.runs.slice(finished)) finish();
      await vi.waitFor(() => expect(kluctl.runs.length > finished + 4 || finished === 16).toBe(true));
    }
    await running;
    expect(sources.merges).toHaveLength(1);
    expect(told).toHaveLength(1);
    expect(told[0]?.previews.map(({ deployment, state }) => `${deployment.name} ${state}`)).toEqual(
      twenty.map(({ key: { name } }) => `${name} done`),
    );
  });
});

describe("work that is broken off", () => {
  async function breakOff(reason: Error) {
    const kluctl = slowKluctl();
    const limit = createLimit(1);
    const world = aWorld([named("a"), named("b")], { kluctl, limit: (work, options) => limit.run(work, options) });
    const controller = new AbortController();
    const running = world.run({ signal: controller.signal, lastAttempt: true });
    await vi.waitFor(() => expect(kluctl.runs).toHaveLength(1));
    controller.abort(reason);
    await world.twoSecondsPass();
    const outcome = await running;
    return { ...world, outcome, kluctl };
  }

  test("by a newer request says nothing, and leaves no process and no merge behind", async () => {
    const { outcome, told, queue, kluctl, sources } = await breakOff(new SupersededError("newer"));
    expect(outcome).toEqual({ kind: "skipped", why: "superseded" });
    expect([told, queue.requests]).toEqual([[], []]);
    expect(kluctl.running()).toBe(0);
    expect(kluctl.runs).toHaveLength(1);
    expect(sources.released).toHaveLength(1);
  });

  test("by the end of the server is handed back", async () => {
    const { outcome, told } = await breakOff(new Error("the server is stopping"));
    expect(outcome).toMatchObject({ kind: "failed", retry: "soon" });
    expect(told).toEqual([]);
  });
});

describe("a pull request that is not open any more", () => {
  test.each(["closed", "merged"] as const)("because it was %s: what was said stays, and is told so", async (state) => {
    const previous = aReport({ pullRequest: key });
    const { run, told, queue, sources } = aWorld([named("a")], { pullRequest: { state }, previous });
    expect(await run()).toEqual({ kind: "done" });
    expect(told).toEqual([{ ...previous, state }]);
    expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
    expect(sources.merges).toEqual([]);
  });

  test("and of which nothing was said stays unmentioned", async () => {
    const { run, told } = aWorld([named("a")], { pullRequest: { state: "merged" } });
    expect(await run()).toMatchObject({ kind: "skipped" });
    expect(told).toEqual([]);
  });
});

test("a report goes on from the one before it", async () => {
  const previous = aReport({ pullRequest: key, head, base: "a".repeat(40), earlierHeads: ["h0"], restarts: 2 });
  const moved = aWorld([named("a")], { previous: { ...previous, finishedAt: startedAt - 1_000 } });
  await moved.run();
  expect(moved.told).toMatchObject([{ earlierHeads: ["h0"], restarts: 3 }]);
  const pushed = aWorld([named("a")], { previous, pullRequest: { head: "2".repeat(40) } });
  await pushed.run();
  expect(pushed.told).toMatchObject([{ earlierHeads: [head, "h0"], restarts: 0 }]);
});

test("Redis that is away is tried again", async () => {
  const { run, reports } = aWorld([named("a")]);
  reports.save = () => Promise.reject(new QueueUnavailableError("Redis is away"));
  expect(await run({ lastAttempt: true })).toEqual({ kind: "failed", retry: "soon", message: "Redis is away" });
});
