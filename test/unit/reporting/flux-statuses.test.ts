/** The commit statuses of what Flux applies: Flux's controllers are played, as their status shows what they do. */
import { describe, expect, test, vi } from "vitest";
import { SourceError } from "../../../src/errors.ts";
import type { Condition } from "../../../src/model.ts";
import { createFindHeads, type FindHeads, type HeadsDeps } from "../../../src/source/heads.ts";
import { aDeployment } from "../../support/deployments.ts";
import { aReport, fakeReports } from "../../support/fake-reports.ts";
import { aFluxSource, aKustomization, type PlayedStatus } from "../../support/flux.ts";
import {
  applied,
  before,
  inProgress,
  later,
  old,
  pushed,
  repo,
  secret,
  useFluxStatuses,
} from "../../support/flux-statuses.ts";

const name = "towline/kustomization/flux-system/apps";
const unauthorized = new SourceError("unauthorized", "authentication failed");
const again = { kind: "later", afterMs: 15_000, why: "a repository of Flux could not be read" };

test("a push is pending until Flux has applied exactly this commit", async () => {
  const { flux, write, news, unsettled } = useFluxStatuses();
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
  const { flux, write, news } = useFluxStatuses();
  const stale: PlayedStatus[] = [
    before,
    { ...before, ready: ["False", "BuildFailed", "old news"] },
    { ...before, attempting: old, ready: ["False", "HealthCheckFailed", "old news"] },
    { ...before, ready: ["False", "ArtifactFailed", "artifact not found"] },
    { ...before, isStalled: false, ready: inProgress },
    // Begun with the pushed commit, while the condition is still that of the one before.
    { ...before, attempted: pushed },
    { ...before, attempting: pushed },
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
    const { flux, write, news } = useFluxStatuses();
    flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", played));
    await write();
    expect(news()).toEqual([`${name} ${expected}`]);
  });

  test("suspended is said, of the Kustomization and of its source", async () => {
    const { flux, write, news } = useFluxStatuses();
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", { ...before, spec: { suspend: true } }));
    await write();
    expect(news()).toEqual([`${name} success suspended: Flux applies nothing`]);
    flux.set(aFluxSource({ commit: old, suspended: true }), aKustomization("apps", before));
    await write();
    expect(news()).toEqual([`${name} success suspended: Flux does not fetch GitRepository flux-system/shop`]);
  });
});

test("while Flux checks what it has applied, or retries what has failed, its result stays", async () => {
  const { flux, write, news } = useFluxStatuses();
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
  // The spec is changed, by the same commit in another Kustomization.
  flux.set(aKustomization("apps", { ...applied, generation: 2, observedGeneration: 1, seenGeneration: 1 }));
  await write();
  expect(news()).toEqual([`${name} pending being applied by Flux`]);
});

describe("a commit that Flux skipped, because the next one came too soon,", () => {
  async function skipped() {
    const all = useFluxStatuses();
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

  test("is superseded until then", async () => {
    const { flux, write, news, sources, unsettled } = await skipped();
    sources.lineage.set(later, [later, pushed, old]);
    await write();
    expect(news(), "nothing later is applied yet").toEqual([`${name} canceled superseded by a newer commit`]);
    expect(await unsettled(), "the next change in the cluster counts").toMatchObject([{ commit: pushed }]);
    flux.set(aKustomization("apps", withLater));
    await write();
    expect(news()).toEqual([`${name} success applied with ${later.slice(0, 7)}`]);
    expect(await unsettled()).toEqual([]);
  });

  test("is superseded otherwise", async () => {
    const { flux, write, news, sources, unsettled } = await skipped();
    await write();
    expect(news(), "nothing later is applied yet").toEqual([`${name} canceled superseded by a newer commit`]);
    flux.set(aKustomization("apps", withLater));
    await write();
    expect(news(), "the branch was reset to another commit").toEqual([]);
    expect(await unsettled()).toEqual([]);
    sources.lineage.set(later, [later, pushed, old]);
    flux.set(aKustomization("apps", { ...withLater, ready: ["False", "HealthCheckFailed", "broken"] }));
    await write();
    expect(news(), "the later one has failed").toEqual([]);
  });

  test("stays pending if only Flux can read which one is later", async () => {
    const { write, news, sources } = await skipped();
    sources.failing.error = unauthorized;
    expect(await write()).toEqual({ kind: "done" });
    expect(news()).toEqual([]);
  });

  test("stays pending while git cannot be asked, and is looked at again", async () => {
    const { flux, write, news, sources, unsettled } = await skipped();
    sources.lineage.set(later, [later, pushed, old]);
    flux.set(aKustomization("apps", withLater));
    const unreachable = new SourceError("unreachable", "connection reset");
    sources.failing.error = unreachable;
    expect(await write(), "its refs").toEqual(again);
    delete sources.failing.error;
    vi.spyOn(sources, "contains").mockRejectedValueOnce(unreachable);
    expect(await write(), "its history").toEqual(again);
    expect(news()).toEqual([]);
    expect(await unsettled()).toMatchObject([{ commit: pushed }]);
    expect(await write()).toEqual({ kind: "done" });
    expect(news()).toEqual([`${name} success applied with ${later.slice(0, 7)}`]);
    expect(await unsettled()).toEqual([]);
  });
});

test("what a commit came to stays, whatever comes after it", async () => {
  const { flux, write, news, sources } = useFluxStatuses();
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

describe("git's answer from before Flux fetched", () => {
  /** Git as it is asked: an answer is kept until the repository has moved. */
  function useKept() {
    const all = useFluxStatuses({ lastMove: () => Promise.resolve("of the webhook") });
    const { sources } = all;
    const find = createFindHeads({
      readerOf: () => Promise.resolve({ id: "server" }) as ReturnType<HeadsDeps["readerOf"]>,
      list: () => Promise.resolve({ commits: new Map(Object.entries(sources.refs)) }),
      fetch: () => Promise.resolve(undefined),
      slowness: { wait: (_remote, ask) => ask(new AbortController().signal) },
      maxAgeMs: 600_000,
    });
    const list = vi.spyOn(sources, "heads");
    list.mockImplementation(({ url }, freshness) => find({ address: url } as Parameters<FindHeads>[0], freshness, {}));
    return all;
  }

  test("is not believed if the webhook of the next push was lost", async () => {
    const { flux, write, news, sources } = useKept();
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
    await write();
    expect(news()).toEqual([`${name} pending queued`]);
    sources.refs["refs/heads/main"] = later;
    sources.lineage.set(later, [later, pushed, old]);
    flux.set(aFluxSource({ commit: later }), aKustomization("apps", { ...applied, attempted: later, applied: later }));
    expect(await write()).toEqual({ kind: "done" });
    expect(news()).toEqual([`${name} success applied with ${later.slice(0, 7)}`]);
  });

  test("is asked again if the git host itself is behind Flux, and does not take back a result", async () => {
    const { flux, write, news } = useFluxStatuses();
    const differs = { kind: "later", afterMs: 60_000, why: "git and Flux differ in the latest commit" };
    flux.set(aFluxSource({ commit: later }), aKustomization("apps", before));
    expect(await write()).toEqual(differs);
    expect(news()).toEqual([`${name} pending queued`]);
    flux.set(aKustomization("apps", applied));
    await write();
    expect(news()).toEqual([`${name} success applied`]);
    flux.set(aKustomization("apps", { ...applied, attempted: later, applied: later }));
    expect(await write()).toEqual({ kind: "done" });
    expect(news()).toEqual([]);
  });
});

test("of a repository that only Flux can read, the webhook itself says what is pushed", async () => {
  const { flux, write, news, sources } = useFluxStatuses();
  sources.failing.error = unauthorized;
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

test("a repository that cannot be read is not asked again for each change in the cluster", async () => {
  for (const [error, outcome] of [
    [unauthorized, { kind: "done" }],
    [new SourceError("unreachable", "connection reset"), again],
  ] as const) {
    const { flux, write, sources } = useFluxStatuses({ restMs: 60_000 });
    sources.failing.error = error;
    flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
    for (const _ of [1, 2, 3]) expect(await write(pushed, "refs/heads/main")).toEqual(outcome);
    expect(sources.asked).toHaveLength(1);
  }
});

test("what Redis lost is derived from the cluster again", async () => {
  const { flux, write, news, reports } = useFluxStatuses();
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
  const { flux, write, news } = useFluxStatuses();
  const of = (source: string, kind = "GitRepository") => ({ ...applied, spec: { sourceRef: { kind, name: source } } });
  flux.set(aFluxSource({ name: "release", ref: { branch: "release" }, commit: old }));
  flux.set(aFluxSource({ name: "fixed", ref: { commit: pushed }, commit: pushed }));
  flux.set(aFluxSource({ name: "elsewhere", url: "https://git.example.com/org/other", commit: pushed }));
  flux.set(aKustomization("a", { ...of("release"), ...before }), aKustomization("b", of("fixed")));
  flux.set(aKustomization("c", of("elsewhere")), aKustomization("d", of("shop", "OCIRepository")));
  await write();
  expect(news()).toEqual([]);
});

test("a status of what was deleted ends", async () => {
  const { flux, write, news, unsettled } = useFluxStatuses();
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
  const { flux, write, news } = useFluxStatuses({
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
  const { flux, write, news, sources } = useFluxStatuses();
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
  sources.failing.error = unauthorized;
  await write(later);
  expect(news()).toEqual([]);
  delete sources.failing.error;
  sources.refs["refs/heads/main"] = "e".repeat(40);
  await write(later);
  expect(news()).toEqual(["towline canceled superseded by a newer commit"]);
});

test("nothing is written before Kustomizations are known; a commit that a pull request proposes keeps its summary", async () => {
  const { flux, write, forge, reports } = useFluxStatuses();
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", applied));
  flux.state.synced = false;
  expect(await write()).toMatchObject({ kind: "later" });
  flux.state.synced = true;
  await reports.current.save(aReport({ repo, head: pushed, baseBranch: "release" }));
  await write();
  expect(forge.statuses.map(({ status }) => status.context)).toEqual([name]);
});
