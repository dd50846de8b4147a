import { expect, test } from "vitest";
import { createPageFacts, type PageFactsDeps } from "../../../src/app/page-facts.ts";
import { annotation } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment } from "../../support/deployments.ts";
import { aReport, fakeReports, headCommit } from "../../support/fake-reports.ts";

test("readers of a pull request share what was read, and see that it is outdated", async () => {
  const reports = fakeReports();
  const report = aReport();
  await reports.save(report);
  let reads = 0;
  const find: typeof reports.find = (key) => {
    reads++;
    return reports.find(key);
  };
  // The page of a pull request needs nothing else.
  const facts = createPageFacts({ reports: { find, stale: reports.stale } } as unknown as PageFactsDeps);
  const { pullRequest } = report;
  const shown = await Promise.all([facts.pullRequest(pullRequest), facts.pullRequest(pullRequest)]);
  expect(shown.map((one) => [one?.name, one?.staleness])).toEqual([
    ["gitea:org/shop#7", undefined],
    ["gitea:org/shop#7", undefined],
  ]);
  expect(reads).toBe(1);
  expect(await facts.pullRequest({ ...pullRequest, number: 8 })).toBeUndefined();

  await reports.setStale(pullRequest, { startedAt: report.startedAt, until: Date.UTC(2026, 4, 4) });
  await expect.poll(async () => (await facts.pullRequest(pullRequest))?.staleness).toContain("Outdated");
  // The next one waits for others.
  const waiting = { head: "2".repeat(40), baseBranch: "main" };
  await reports.setStale(pullRequest, { startedAt: report.startedAt, until: Date.UTC(2026, 4, 4), waiting });
  await expect
    .poll(async () => (await facts.pullRequest(pullRequest))?.staleness)
    .toContain("there is a newer commit `2222222`. Its comparison waits for those of other pull requests.");
  // Of an earlier comparison: it says nothing about this one.
  await reports.setStale(pullRequest, { startedAt: 1, until: Date.UTC(2026, 4, 4) });
  await expect.poll(async () => (await facts.pullRequest(pullRequest))?.staleness).toBeUndefined();
});

test.each(["merged", "closed"] as const)(
  "a %s pull request waits for no preview, whatever was noted before",
  async (state) => {
    const reports = fakeReports();
    const report = aReport({ state });
    await reports.save(report);
    const { pullRequest, startedAt } = report;
    await reports.setStale(pullRequest, { startedAt, waiting: { head: "2".repeat(40), baseBranch: "main" } });
    const shown = await createPageFacts({ reports } as unknown as PageFactsDeps).pullRequest(pullRequest);
    expect([shown?.name, shown?.staleness]).toEqual(["gitea:org/shop#7", undefined]);
  },
);

test("pull requests of a library that deployments only include are listed, and found by their commit", async () => {
  const url = "https://git.example.com/org/library";
  const reports = fakeReports();
  const pullRequest = { forge: "gitea", repoName: "org/library", number: 3 };
  await reports.save(aReport({ pullRequest, repo: repoId(url) }));
  const consumer = aDeployment({ annotations: { [annotation.includes]: `${url} refs/heads/main` } });
  const facts = createPageFacts({
    ...{ deployments: { all: () => [consumer], find: () => undefined }, reports, forges: () => [] },
    ...{ client: { list: () => Promise.resolve({ items: [] }) }, clock: { now: () => 0 }, resultsNamespace: "results" },
  } as unknown as PageFactsDeps);
  expect((await facts.pullRequests()).map(({ name }) => name)).toEqual(["gitea:org/library#3"]);
  const { pullRequests } = await facts.trace(headCommit.slice(0, 8));
  expect(pullRequests.map(({ name }) => name)).toEqual(["gitea:org/library#3"]);
});

test("manifests are shown as long as they belong to the preview that is shown", async () => {
  const reports = fakeReports();
  const report = aReport();
  await reports.save(report);
  const ref = { kind: "ConfigMap", name: "a", namespace: "shop" };
  const objects = [{ ref, text: "data: 1", linesLeftOut: 2 }];
  const stored = { startedAt: report.startedAt, deployments: [{ deployment: "shop/prod", objects, leftOut: 3 }] };
  const factsWith = (startedAt: number) =>
    createPageFacts({
      reports,
      manifests: { find: () => Promise.resolve({ ...stored, startedAt }) },
    } as unknown as PageFactsDeps);
  const { pullRequest } = report;
  expect(await factsWith(report.startedAt).manifests(pullRequest, "shop/prod")).toMatchObject({
    objects: [{ object: "ConfigMap shop/a", text: "data: 1", linesLeftOut: 2 }],
    leftOut: 3,
  });
  expect(await factsWith(report.startedAt).manifests(pullRequest, "shop/other")).toBeUndefined();
  expect(await factsWith(report.startedAt - 1).manifests(pullRequest, "shop/prod")).toBeUndefined();
});
