import { expect, test } from "vitest";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import { pullRequestText, type RepoId } from "../../../src/model.ts";
import { findProposals } from "../../../src/preview/proposals.ts";
import type { Report } from "../../../src/model/report.ts";

const repo = "git.example.com/org/shop" as RepoId;
const commit = "3f2c1ab".padEnd(40, "0");
const other = "9d41e07".padEnd(40, "0");

function report(number: number, more: Partial<Report> = {}): Report {
  return {
    ...{ v: 1, pullRequest: { forge: "gitea", repoName: "org/shop", number }, url: "javascript:hit()", repo },
    ...{ baseBranch: "main", head: commit, state: "done", previews: [], earlierHeads: [], restarts: 0, startedAt: 1 },
    ...more,
  };
}

function delivery(pullRequest: number, more: Partial<DeliveryRecord> = {}): DeliveryRecord {
  return {
    ...{ v: 1, forge: "gitea", at: pullRequest, status: 202, ms: 1, event: "pull-request", repoName: "org/shop" },
    ...{ commit, pullRequest, matched: 0, deployments: [], queued: 1, ignored: [], ignoredMore: 0 },
    ...more,
  };
}

function find(reports: readonly Report[], deliveries: readonly DeliveryRecord[] = []) {
  const open = reports.filter(({ state }) => state === "done" || state === "working");
  const deps = {
    open: (of: RepoId) => Promise.resolve(of === repo ? open : []),
    find: (key: Report["pullRequest"]) =>
      Promise.resolve(reports.find((one) => pullRequestText(one.pullRequest) === pullRequestText(key))),
  };
  return findProposals(deps, { commit: "3f2c1ab", repos: [repo, repo], deliveries });
}

test("the head of an open pull request is reported as such, with what the merge would change", async () => {
  const found = await find([report(7), report(8, { head: other })], [delivery(7)]);
  expect(found).toMatchObject([
    {
      name: "gitea:org/shop#7",
      url: undefined,
      isHead: true,
      state: "done",
      words: "It is the head of pull request gitea:org/shop#7 into main and is not deployed before it is merged.",
      verdict: "no deployment is affected",
    },
  ]);
});

test("an earlier head, and the head of a merged or closed pull request, are known from the deliveries", async () => {
  const merged = report(1, { state: "merged" });
  const closed = report(2, { state: "closed" });
  const moved = report(3, { head: other });
  const found = await find([merged, closed, moved], [delivery(1), delivery(2), delivery(3)]);
  expect(found.map(({ verdict }) => verdict)).toEqual(["no deployment is affected", "", ""]);
  expect(found.map(({ words }) => words)).toEqual([
    "It was the head of pull request gitea:org/shop#3 into main, which is at 9d41e07 now.",
    "It was the head of pull request gitea:org/shop#1 into main, which has been merged; after a squash or a rebase, its changes are in another commit.",
    "It was the head of pull request gitea:org/shop#2 into main, which was closed without merging.",
  ]);
});

test("the head of a merged pull request leads to the commit that contains it", async () => {
  const merged = report(1, { state: "merged", mergeCommit: other });
  const [found] = await find([merged], [delivery(1)]);
  expect(found).toMatchObject({
    mergeCommit: other,
    words: expect.stringMatching(/has been merged as 9d41e07\w{3}: that commit is the one to trace\.$/),
  });
  const [forward] = await find([report(1, { state: "merged", mergeCommit: commit })], [delivery(1)]);
  expect(forward?.words).not.toContain("the one to trace"); // it is this commit
});

test("a head that a push delivered is not reported as squashed", async () => {
  const merged = report(1, { state: "merged" });
  for (const push of [{ commit }, { commit: other, others: [commit] }]) {
    const [found] = await find(
      [merged],
      [delivery(1), delivery(2, { event: "push", pullRequest: undefined, ...push })],
    );
    expect(found?.words).toBe("It was the head of pull request gitea:org/shop#1 into main, which has been merged.");
  }
});

test("a pull request that is not previewed is reported with the reason", async () => {
  const [found] = await find([], [delivery(7, { reason: "previews of pull requests are disabled" })]);
  expect(found).toMatchObject({
    state: "unknown",
    isHead: true,
    verdict: "previews of pull requests are disabled",
  });
  expect((await find([], [delivery(7, { event: "push" })]))[0]).toBeUndefined();
});
