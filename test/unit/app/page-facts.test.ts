import { expect, test } from "vitest";
import { createPageFacts, type PageFactsDeps } from "../../../src/app/page-facts.ts";
import { aReport, fakeReports } from "../../support/fake-reports.ts";

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
  expect(shown.map((one) => [one?.name, one?.notes])).toEqual([
    ["gitea:org/shop#7", []],
    ["gitea:org/shop#7", []],
  ]);
  expect(reads).toBe(1);
  expect(await facts.pullRequest({ ...pullRequest, number: 8 })).toBeUndefined();

  await reports.setStale(pullRequest, { startedAt: report.startedAt, until: Date.UTC(2026, 4, 4) });
  await expect.poll(async () => (await facts.pullRequest(pullRequest))?.notes.join()).toContain("Outdated");
  // Of an earlier comparison: it says nothing about this one.
  await reports.setStale(pullRequest, { startedAt: 1, until: Date.UTC(2026, 4, 4) });
  await expect.poll(async () => (await facts.pullRequest(pullRequest))?.notes).toEqual([]);
});
