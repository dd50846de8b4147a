/** The commit statuses of what Flux applies: Flux's controllers are played, as their status shows what they do. */
import { describe, expect, test } from "vitest";
import type { Condition } from "../../../src/model.ts";
import { createCommitStatusWriter } from "../../../src/reporting/write-commit-status.ts";
import { createFluxStatuses } from "../../../src/reporting/flux-statuses.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";
import { aFluxSource, aHelmRelease, aKustomization, fakeFlux, type PlayedStatus } from "../../support/flux.ts";

const [old, pushed, later] = ["a".repeat(40), "c".repeat(40), "d".repeat(40)];
const { repo } = aFluxSource();
const secret = "s3cr3t-of-the-server";

function setUp({ deployments = [] as ReturnType<typeof aDeployment>[] } = {}) {
  const forge = fakeForge();
  const flux = fakeFlux();
  const sources = fakeSources({ "refs/heads/main": pushed });
  const reports = { current: fakeReports() };
  const cluster = fakeDeployments(...deployments);
  const lastMove = () => Promise.resolve(undefined);
  const write = (commit = pushed, pushedTo?: string) =>
    createCommitStatusWriter({
      forges: new Map([["gitea", forge]]),
      reports: reports.current,
      queue: fakeQueue(),
      deployments: { ...cluster, synced: () => true },
      secrets: fakeSecrets(),
      sources,
      lastMove,
      writeEnvironments: () => Promise.resolve(),
      flux: createFluxStatuses({
        ...{ ...flux, sources, lastMove, log: silentLog },
        createMask: () => (text) => text.replaceAll(secret, "*****"),
      }),
      log: silentLog,
    })({ kind: "commit-status", commit: { forge: "gitea", repoName: "org/shop", commit }, repo, pushedTo });
  /** What was written since the last time; a summary that repeats its only line is left out. */
  const news = () => {
    const written = forge.statuses.splice(0).map(({ status }) => status);
    const shown = written.filter(
      (one) =>
        one.context !== "towline" || !written.some((other) => other !== one && other.description === one.description),
    );
    return shown.map(({ context, state, description }) => `${context} ${state} ${description}`);
  };
  return { forge, flux, sources, reports, write, news, unsettled: () => reports.current.unsettled(repo) };
}

const name = "towline/kustomization/flux-system/apps";
const before: PlayedStatus = { attempted: old, applied: old, ready: ["True", "ReconciliationSucceeded"] };
const applied: PlayedStatus = { attempted: pushed, applied: pushed, ready: ["True", "ReconciliationSucceeded"] };
const inProgress = ["Unknown", "Progressing", "Reconciliation in progress"] as const;

test("a push is pending until Flux has applied exactly this commit", async () => {
  const { flux, write, news, unsettled } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  await write();
  expect(news()).toEqual([`${name} pending queued`]);
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);

  flux.set(aFluxSource({ commit: pushed }));
  flux.set(aKustomization("apps", { ...before, attempting: pushed, ready: inProgress }));
  await write();
  expect(news()).toEqual([`${name} pending being applied by Flux`]);

  flux.set(aKustomization("apps", applied));
  await write();
  await write();
  expect(news()).toEqual([`${name} success applied`]);
  expect(await unsettled()).toEqual([]);
});

test("what an earlier commit, or an earlier spec, came to is never reported for the pushed one", async () => {
  const { flux, write, news } = setUp();
  const stale: PlayedStatus[] = [
    before,
    { ...before, ready: ["False", "BuildFailed", "old news"] },
    { ...before, attempting: old, ready: ["False", "HealthCheckFailed", "old news"] },
    { ...before, ready: ["False", "ArtifactFailed", "artifact not found"] },
    { ...before, isStalled: false, ready: inProgress },
    // Applied, and then its spec was changed.
    { ...applied, generation: 2, observedGeneration: 1 },
    { ...applied, generation: 2, observedGeneration: 2, seenGeneration: 1 },
    { generation: 2, seenGeneration: 1, attempted: pushed, ready: ["False", "BuildFailed", "old news"] },
    // Applied before, not this time.
    { ...applied, attempting: pushed, ready: inProgress },
    {},
  ];
  for (const commit of [old, pushed]) {
    for (const played of stale) {
      flux.set(aFluxSource({ commit }), aKustomization("apps", played));
      await write();
      expect(
        news().filter((line) => !line.includes(" pending ")),
        JSON.stringify(played),
      ).toEqual([]);
    }
  }
});

describe("what Flux reports about the commit", () => {
  test.each<[string, PlayedStatus, string]>([
    [
      "cannot be built",
      { attempted: pushed, applied: old, attempting: pushed, ready: ["False", "BuildFailed", "no such file\nmore"] },
      "failure no such file",
    ],
    [
      "does not have its path",
      { attempted: old, applied: old, attempting: pushed, ready: ["False", "ArtifactFailed", "path not found"] },
      "failure path not found",
    ],
    [
      "is not healthy",
      { attempted: pushed, applied: old, ready: ["False", "HealthCheckFailed", "timeout waiting for: [x]"] },
      "failure timeout waiting for: [x]",
    ],
    [
      "was rejected, with a secret",
      { attempted: pushed, ready: ["False", "ReconciliationFailed", `invalid: "${secret}"`] },
      'failure invalid: "*****"',
    ],
    [
      "was rejected without a word",
      { attempted: pushed, ready: ["False", "ReconciliationFailed"] },
      "failure ReconciliationFailed",
    ],
    [
      "waits for another one",
      { ...before, ready: ["False", "DependencyNotReady", "dependency 'flux-system/infra' is not ready"] },
      "pending waits for flux-system/infra",
    ],
    [
      "waits for something",
      { ...before, ready: ["False", "DependencyNotReady", "expression is false"] },
      "pending waits: expression is false",
    ],
    [
      "is not allowed",
      { ...before, isStalled: true, ready: ["False", "AccessDenied", "cannot access flux-system"] },
      "failure cannot access flux-system",
    ],
    [
      "was interrupted",
      { attempted: pushed, attempting: pushed, ready: ["False", "HealthCheckCanceled", "New reconciliation"] },
      "pending being applied by Flux",
    ],
    [
      "has failed with a new spec",
      { generation: 2, observedGeneration: 1, attempted: pushed, ready: ["False", "BuildFailed", "no such file"] },
      "failure no such file",
    ],
  ])("it %s", async (_, played, expected) => {
    const { flux, write, news } = setUp();
    flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", played));
    await write();
    expect(news()).toEqual([`${name} ${expected}`]);
  });

  test("suspended is said, of the Kustomization and of its source", async () => {
    const { flux, write, news } = setUp();
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", { ...before, spec: { suspend: true } }));
    await write();
    expect(news()).toEqual([`${name} success suspended: Flux applies nothing`]);
    flux.set(aFluxSource({ commit: old, suspended: true }), aKustomization("apps", before));
    await write();
    expect(news()).toEqual([`${name} success suspended: Flux does not fetch GitRepository flux-system/shop`]);
  });
});

test("while Flux checks what it has applied, or retries what has failed, its result stays", async () => {
  const { flux, write, news } = setUp();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied));
  await write();
  expect(news()).toHaveLength(1);
  const waits = ["False", "DependencyNotReady", "dependency 'x/y' is not ready"] as const;
  for (const ready of [inProgress, waits]) {
    flux.set(aKustomization("apps", { ...applied, ready }));
    await write();
  }
  expect(news()).toEqual([]);
  flux.set(aKustomization("apps", { ...applied, attempting: pushed, ready: ["False", "HealthCheckFailed", "broken"] }));
  await write();
  expect(news()).toEqual([`${name} failure broken`]);
  flux.set(aKustomization("apps", { ...applied, attempting: pushed, ready: inProgress }));
  await write();
  expect(news()).toEqual([]);
  flux.set(aKustomization("apps", applied));
  await write();
  expect(news()).toEqual([`${name} success applied`]);
});

describe("a commit that Flux skipped, because the next one came too soon,", () => {
  async function skipped() {
    const all = setUp();
    const { flux, write, news, sources } = all;
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
    await write();
    expect(news()).toEqual([`${name} pending queued`]);
    sources.refs["refs/heads/main"] = later;
    flux.set(aFluxSource({ commit: later }));
    return all;
  }
  const withLater: PlayedStatus = { attempted: later, applied: later, ready: ["True", "ReconciliationSucceeded"] };

  test("was applied if what was applied is later, by git", async () => {
    const { flux, write, news, sources, unsettled } = await skipped();
    sources.lineage.set(later, [later, pushed, old]);
    flux.set(aKustomization("apps", withLater));
    await write();
    expect(news()).toEqual([`${name} success applied with ${later.slice(0, 7)}`]);
    expect(await unsettled()).toEqual([]);
  });

  test("is superseded otherwise", async () => {
    const { flux, write, news, sources } = await skipped();
    await write();
    expect(news(), "nothing later is applied yet").toEqual([`${name} canceled superseded by a newer commit`]);
    flux.set(aKustomization("apps", withLater));
    await write();
    expect(news(), "the branch was reset to another commit").toEqual([]);
    sources.lineage.set(later, [later, pushed, old]);
    flux.set(aKustomization("apps", { ...withLater, ready: ["False", "HealthCheckFailed", "broken"] }));
    await write();
    expect(news(), "the later one has failed").toEqual([]);
  });

  test("stays pending if nobody can say which one is later", async () => {
    const { write, news, sources } = await skipped();
    sources.failing.error = new Error("authentication failed");
    await write();
    expect(news()).toEqual([]);
  });
});

test("what a commit came to stays, whatever comes after it", async () => {
  const { flux, write, news, sources } = setUp();
  flux.set(
    aFluxSource({ commit: pushed }),
    aKustomization("apps", { attempted: pushed, ready: ["False", "BuildFailed", "bad"] }),
  );
  await write();
  expect(news()).toHaveLength(1);
  sources.refs["refs/heads/main"] = later;
  flux.set(aFluxSource({ commit: later }), aKustomization("apps", { ...applied, attempted: later, applied: later }));
  await write();
  expect(news()).toEqual([]);
});

test("of a repository that only Flux can read, the webhook itself says what is pushed", async () => {
  const { flux, write, news, sources } = setUp();
  sources.failing.error = new Error("authentication failed");
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  flux.set(aFluxSource({ name: "release", ref: { branch: "release" }, commit: old }));
  flux.set(aKustomization("other", { ...before, spec: { sourceRef: { kind: "GitRepository", name: "release" } } }));
  await write(pushed, "refs/heads/main");
  expect(news()).toEqual([`${name} pending queued`]);
  await write();
  expect(news()).toEqual([]);
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied));
  await write();
  expect(news()).toEqual([`${name} success applied`]);
});

test("what Redis lost is derived from the cluster again", async () => {
  const { flux, write, news, reports } = setUp();
  flux.set(
    aFluxSource({ commit: pushed }),
    aKustomization("apps", { ...before, attempting: pushed, ready: inProgress }),
  );
  await write();
  expect(news()).toHaveLength(1);
  reports.current = fakeReports();
  flux.set(aKustomization("apps", applied));
  await write();
  expect(news()).toEqual([`${name} success applied`]);
});

test("a Kustomization of another branch, of a fixed commit or of another source has no status", async () => {
  const { flux, write, news } = setUp();
  const of = (source: string, kind = "GitRepository") => ({ ...applied, spec: { sourceRef: { kind, name: source } } });
  flux.set(aFluxSource({ name: "release", ref: { branch: "release" }, commit: old }));
  flux.set(aFluxSource({ name: "fixed", ref: { commit: pushed }, commit: pushed }));
  flux.set(aFluxSource({ name: "elsewhere", url: "https://git.example.com/org/other", commit: pushed }));
  flux.set(aKustomization("a", { ...of("release"), ...before }), aKustomization("b", of("fixed")));
  flux.set(aKustomization("c", of("elsewhere")), aKustomization("d", of("shop", "OCIRepository")));
  await write();
  expect(news()).toEqual([]);
});

describe("a HelmRelease", () => {
  const release = "towline/helmrelease/web/web";
  const ready = ["True", "UpgradeSucceeded"] as const;
  const git = {
    chart: { spec: { chart: "./chart", sourceRef: { kind: "GitRepository", name: "shop", namespace: "flux-system" } } },
  };
  const own = (lines: string[]) => lines.filter((line) => line.startsWith(release));

  test("has the commit that its Kustomization has applied, once its own spec is released", async () => {
    const { flux, write, news } = setUp();
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", before), aHelmRelease("web", { ready }));
    await write();
    expect(own(news())).toEqual([`${release} pending waits for Kustomization flux-system/apps`]);
    flux.set(aFluxSource({ commit: pushed }));
    flux.set(aKustomization("apps", { ...before, attempting: pushed, ready: inProgress }));
    await write();
    expect(own(news())).toEqual([]);

    // The Kustomization changed it, which the watch of HelmReleases does not show yet.
    flux.set(aKustomization("apps", applied));
    flux.ahead.set("web/web", aHelmRelease("web", { generation: 2, observedGeneration: 1, seenGeneration: 1, ready }));
    await write();
    expect(own(news())).toEqual([`${release} pending being applied by Flux`]);
    flux.ahead.set("web/web", new Error("the API server is away"));
    await write();
    expect(own(news())).toEqual([]);
    flux.ahead.clear();
    flux.set(aHelmRelease("web", { generation: 2, ready: ["False", "UpgradeFailed", "timed out\nlogs"] }));
    await write();
    expect(own(news())).toEqual([`${release} failure timed out`]);
    flux.set(aHelmRelease("web", { generation: 2, ready }));
    await write();
    expect(own(news())).toEqual([`${release} success applied`]);
  });

  test("stays as it is while its Kustomization is checked again, and when it goes on to the next commit", async () => {
    const { flux, write, news, sources } = setUp();
    flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied), aHelmRelease("web", { ready }));
    await write();
    expect(own(news())).toEqual([`${release} success applied`]);
    flux.set(aKustomization("apps", { ...applied, attempting: pushed, ready: inProgress }));
    await write();
    sources.refs["refs/heads/main"] = later;
    flux.set(
      aFluxSource({ commit: later }),
      aKustomization("apps", { ...applied, attempting: later, ready: inProgress }),
    );
    flux.set(aHelmRelease("web", { generation: 2, ready: ["False", "UpgradeFailed", "timed out"] }));
    await write();
    expect(own(news())).toEqual([]);
  });

  test.each<[string, Parameters<typeof aHelmRelease>[1], string]>([
    ["suspended", { spec: { suspend: true } }, "success suspended: Flux applies nothing"],
    [
      "waiting for another one",
      { ready: ["False", "DependencyNotReady", "dependency 'web/db' is not ready"] },
      "pending waits for web/db",
    ],
    [
      "waiting for its chart",
      { ready: ["False", "SourceNotReady", "HelmChart 'web/web' is not ready"] },
      "pending waits: HelmChart 'web/web' is not ready",
    ],
    [
      "of the old spec",
      { generation: 2, observedGeneration: 1, seenGeneration: 1, ready },
      "pending being applied by Flux",
    ],
    ["stalled", { isStalled: true, ready: ["False", "RetriesExceeded", "gave up"] }, "failure gave up"],
  ])("that is %s says so", async (_, played, expected) => {
    const { flux, write, news } = setUp();
    flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied), aHelmRelease("web", played));
    await write();
    expect(own(news())).toEqual([`${release} ${expected}`]);
  });

  test("with a chart in the repository has the commit that the released chart was built from", async () => {
    const { flux, write, news } = setUp();
    const built = (commit: string | undefined, version: string | undefined) => ({ chart: { commit, version } });
    flux.set(aFluxSource({ commit: old }));
    const states: [Parameters<typeof aHelmRelease>[1], string[]][] = [
      [{ ...built(old, "1.0.0"), version: "1.0.0", ready }, ["pending queued"]],
      // Being built.
      [{ ...built(undefined, undefined), version: "1.0.0", ready }, []],
      // Built, and not released yet: the condition is that of the release before.
      [{ ...built(pushed, "1.0.1"), version: "1.0.0", ready }, []],
      [
        { ...built(pushed, "1.0.1"), version: "1.0.1", ready: ["Unknown", "Progressing"] },
        ["pending being applied by Flux"],
      ],
      [{ ...built(pushed, "1.0.1"), version: "1.0.1", ready }, ["success applied"]],
    ];
    for (const [played, expected] of states) {
      flux.set(aHelmRelease("web", { ...played, spec: git, owner: "" }));
      await write();
      expect(own(news())).toEqual(expected.map((line) => `${release} ${line}`));
    }
  });

  test("with a chart in the repository and in a Kustomization of it waits for both", async () => {
    const { flux, write, news } = setUp();
    const both = { spec: git, chart: { commit: pushed, version: "1.0.1" }, version: "1.0.1", ready };
    flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", before), aHelmRelease("web", both));
    await write();
    expect(own(news())).toEqual([`${release} pending waits for Kustomization flux-system/apps`]);
    flux.set(
      aKustomization("apps", applied),
      aHelmRelease("web", { ...both, chart: { commit: old, version: "1.0.1" } }),
    );
    await write();
    expect(own(news())).toEqual([`${release} pending queued`]);
    flux.set(aHelmRelease("web", both));
    await write();
    expect(own(news())).toEqual([`${release} success applied`]);
  });

  test("that nothing of this repository contains has no status", async () => {
    const { flux, write, news } = setUp();
    flux.set(aFluxSource({ commit: pushed }), aFluxSource({ name: "other", url: "https://git.example.com/org/other" }));
    flux.set(aKustomization("infra", { ...applied, spec: { sourceRef: { kind: "GitRepository", name: "other" } } }));
    const elsewhere = {
      chart: { spec: { sourceRef: { kind: "GitRepository", name: "other", namespace: "flux-system" } } },
    };
    flux.set(aHelmRelease("a", { owner: "infra", ready }), aHelmRelease("b", { owner: "lost", ready }));
    flux.set(aHelmRelease("c", { owner: "", ready }), aHelmRelease("d", { spec: elsewhere, ready }));
    await write();
    expect(news()).toEqual([]);
  });
});

test("a status of what was deleted ends", async () => {
  const { flux, write, news, unsettled } = setUp();
  const apps = aKustomization("apps", before);
  flux.set(aFluxSource({ commit: pushed }), apps);
  await write();
  expect(news()).toHaveLength(1);
  flux.remove(apps);
  await write();
  expect(news()).toEqual([`${name} canceled Flux does not apply it any more`]);
  expect(await unsettled()).toEqual([]);
});

test("KluctlDeployments and Kustomizations of the same name have statuses of their own, and one summary", async () => {
  const ready: Condition = { type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: "" };
  const key = { namespace: "flux-system", name: "apps" };
  const { flux, write, news } = setUp({
    deployments: [aDeployment({ key, status: { observedCommit: pushed, conditions: [ready] } })],
  });
  flux.set(
    aFluxSource({ commit: pushed }),
    aKustomization("apps", { ...applied, ready: ["False", "BuildFailed", "bad"] }),
  );
  await write();
  expect(news()).toEqual([
    "towline/flux-system/apps success nothing to do",
    `${name} failure bad`,
    "towline failure 2 deployments: 1 failed, 1 up to date",
  ]);
});

test("of many, only the failures and the summary are written", async () => {
  const { flux, write, news, sources } = setUp();
  flux.set(aFluxSource({ commit: pushed }));
  for (const n of [1, 2, 3, 4, 5]) flux.set(aKustomization(`n${n}`, applied));
  flux.set(aKustomization("broken", { attempted: pushed, ready: ["False", "BuildFailed", "bad"] }));
  await write();
  expect(news()).toEqual([
    "towline/kustomization/flux-system/broken failure bad",
    "towline failure 6 deployments: 1 failed, 5 up to date",
  ]);

  // The summary is also all that is known of a commit that Flux has not fetched yet.
  sources.refs["refs/heads/main"] = later;
  await write(later);
  expect(news()).toEqual(["towline pending 6 deployments: in progress"]);
  sources.failing.error = new Error("authentication failed");
  await write(later);
  expect(news()).toEqual([]);
  delete sources.failing.error;
  sources.refs["refs/heads/main"] = "e".repeat(40);
  await write(later);
  expect(news()).toEqual(["towline canceled superseded by a newer commit"]);
});

test("nothing is written before Kustomizations are known; a commit that a pull request proposes keeps its summary", async () => {
  const { flux, write, forge, reports } = setUp();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied));
  flux.state.synced = false;
  expect(await write()).toMatchObject({ kind: "later" });
  flux.state.synced = true;
  await reports.current.save(aReport({ repo, head: pushed, baseBranch: "release" }));
  await write();
  expect(forge.statuses.map(({ status }) => status.context)).toEqual([name]);
});
