import { expect, test } from "vitest";
import type { CommitStatus, Heads, RepoId } from "../../../src/model.ts";
import { findUnansweredGroups } from "../../../src/preview/open-group.ts";
import { fakeReports } from "../../support/fake-reports.ts";

const [base, commit] = ["b".repeat(40), "c".repeat(40)];
const branch = `gh-readonly-queue/main/pr-7-${base}`;
const group = { forge: "github", repoName: "org/shop", commit, branch, base };
const heads = {
  commits: new Map([
    ["refs/heads/main", base],
    [`refs/heads/${branch}`, commit],
  ]),
} as unknown as Heads;

test("a group is unanswered until its own status is final", async () => {
  const reports = fakeReports();
  const forges = new Map([["github", { id: "github", repoName: () => "org/shop" }]]);
  const find = () => findUnansweredGroups({ forges, reports }, "github.com/org/shop" as RepoId, heads);
  const save = (state: CommitStatus["state"], of = group) =>
    reports.saveGroupStatus(of, { context: "towline", state, description: "" });
  const unanswered = [{ kind: "merge-group", group, ended: false }];

  expect(await find()).toEqual(unanswered);
  await save("success", { ...group, branch: `gh-readonly-queue/nobody/pr-1-${base}` });
  expect(await find()).toEqual(unanswered);
  await save("pending");
  expect(await find()).toEqual(unanswered);
  await save("failure");
  expect(await find()).toEqual([]);
});
