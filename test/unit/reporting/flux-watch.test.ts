import { expect, onTestFinished, test, vi } from "vitest";
import { startFluxReportWatch } from "../../../src/reporting/flux-watch.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";
import { aFluxSource, aHelmRelease, aKustomization, fakeFlux } from "../../support/flux.ts";

const [old, pushed] = ["a".repeat(40), "c".repeat(40)];
const { repo } = aFluxSource();
const before = { attempted: old, applied: old, ready: ["True", "ReconciliationSucceeded", ""] } as const;
const inProgress = ["Unknown", "Progressing", "Reconciliation in progress"] as const;

const unfinished = (commit: string) => ({ forge: "gitea", repoName: "org/shop", commit });

function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const flux = fakeFlux();
  const queue = fakeQueue();
  const reports = fakeReports();
  const away = { isAway: false };
  const stop = startFluxReportWatch({
    ...flux,
    forges: new Map([["gitea", fakeForge()]]),
    reports,
    queue: {
      enqueue: (requests) => (away.isAway ? Promise.reject(new Error("Redis is away")) : queue.enqueue(requests)),
    },
    log: silentLog,
  });
  const requestOf = (commit: string) => ({
    ...{ kind: "commit-status", repo },
    commit: { forge: "gitea", repoName: "org/shop", commit },
  });
  /** The commits whose statuses were requested since the last time. */
  const news = async () => {
    await vi.advanceTimersByTimeAsync(1_000);
    const requests = queue.requests.splice(0);
    expect(requests).toEqual(requests.map((one) => requestOf(one.kind === "commit-status" ? one.commit.commit : "")));
    return requests.map((one) => (one.kind === "commit-status" ? one.commit.commit : "")).toSorted();
  };
  return { flux, reports, away, stop, news };
}

test("at the start, what Flux has fetched and what it has applied is reported, each commit once, in any order", async () => {
  const { flux, news } = setUp();
  flux.set(
    aKustomization("apps", before),
    aKustomization("infra", before),
    aKustomization("lost", { ...before, spec: { sourceRef: { kind: "Bucket", name: "x" } } }),
  );
  expect(await news(), "their source is not known yet").toEqual([]);
  flux.set(aFluxSource({ commit: pushed }));
  expect(await news()).toEqual([old, pushed]);
});

test("a fetch, an attempt and its result are reported; what Flux checks again is not", async () => {
  const { flux, news } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  await news();
  flux.set(aFluxSource({ commit: old }));
  flux.set(aKustomization("apps", { ...before, ready: inProgress }));
  flux.set(aKustomization("apps", { ...before, attempting: old, ready: inProgress }));
  expect(await news()).toEqual([]);
  flux.set(aKustomization("apps", before));
  expect(await news()).toEqual([]);
  flux.set(aFluxSource({ commit: pushed }));
  expect(await news()).toEqual([pushed]);
  flux.set(aKustomization("apps", { ...before, attempting: pushed, ready: inProgress }));
  expect(await news()).toEqual([pushed]);
  flux.set(aKustomization("apps", { ...before, attempted: pushed, ready: ["False", "BuildFailed", "bad"] }));
  expect(await news()).toEqual([pushed]);
  flux.set(aKustomization("apps", { ...before, attempted: pushed, ready: ["False", "BuildFailed", "worse"] }));
  expect(await news()).toEqual([pushed]);
  flux.set(
    aKustomization("apps", {
      ...before,
      attempted: pushed,
      ready: ["False", "BuildFailed", "worse"],
      spec: { suspend: true },
    }),
  );
  expect(await news()).toEqual([pushed]);
});

test("unfinished commits are checked when something of their repository changes or is deleted", async () => {
  const { flux, reports, news } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  await news();
  await reports.setUnsettled(unfinished(pushed), repo, true);
  await reports.setUnsettled({ ...unfinished(pushed), forge: "not-configured-any-more" }, repo, true);
  flux.set(aKustomization("apps", { ...before, ready: ["False", "BuildFailed", "bad"] }));
  expect(await news()).toEqual([old, pushed]);
  flux.remove(aKustomization("apps"));
  expect(await news()).toContain(pushed);
});

test.each([
  ["first", () => [aFluxSource({ commit: old }), aKustomization("apps", before)]],
  ["last", () => [aKustomization("apps", before), aFluxSource({ commit: old })]],
])("unfinished commits are checked when all that Flux has is deleted at once, the source %s", async (_, all) => {
  const { flux, reports, news } = setUp();
  flux.set(...all());
  await news();
  await reports.setUnsettled(unfinished(pushed), repo, true);
  flux.remove(...all());
  expect(await news()).toContain(pushed);
});

test("unfinished commits of the repository that a source had before are checked, also if Redis is away", async () => {
  const { flux, reports, away, news } = setUp();
  flux.set(aFluxSource({ commit: old }), aKustomization("apps", before));
  await news();
  await reports.setUnsettled(unfinished(pushed), repo, true);
  away.isAway = true;
  flux.set(aFluxSource({ url: "https://elsewhere.example.com/org/shop", commit: old }));
  expect(await news()).toEqual([]);
  away.isAway = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await news()).toEqual([pushed]);
});

test("what Redis does not take is requested again; after it was stopped, nothing is", async () => {
  const { flux, away, stop, news } = setUp();
  away.isAway = true;
  flux.set(aFluxSource({ commit: pushed }));
  expect(await news()).toEqual([]);
  away.isAway = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await news()).toEqual([pushed]);
  flux.set(aFluxSource({ commit: old }));
  stop();
  expect(await news()).toEqual([]);
});

test("a HelmRelease, its chart and the Kustomization that contains it are reported with the commit that they are about", async () => {
  const { flux, news } = setUp();
  const ready = ["True", "UpgradeSucceeded", ""] as const;
  flux.set(aFluxSource({ commit: pushed }), aKustomization("apps", before), aHelmRelease("web", { ready }));
  expect(await news()).toEqual([old, pushed]);
  flux.set(aHelmRelease("web", { ready: ["Unknown", "Progressing", "Running 'upgrade' action"] }));
  expect(await news()).toEqual([]);
  flux.set(aHelmRelease("web", { ready: ["False", "UpgradeFailed", "timed out"] }));
  expect(await news()).toEqual([old, pushed]);
  const chart = { source: { namespace: "flux-system", name: "shop" }, commit: pushed, version: "1.0.0" };
  flux.set(aHelmRelease("web", { ready, chart, version: "1.0.0", owner: "" }));
  expect(await news()).toEqual([old, pushed]);
  flux.set(aHelmRelease("web", { ready, chart: { ...chart, commit: old }, version: "1.0.0", owner: "" }));
  expect(await news()).toEqual([old, pushed]);
});
