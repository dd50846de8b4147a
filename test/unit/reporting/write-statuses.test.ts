import { expect, test } from "vitest";
import type { CommitStatus } from "../../../src/model.ts";
import { writeStatuses } from "../../../src/reporting/write-statuses.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakeReports } from "../../support/fake-reports.ts";

const commit = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };
const line = (context: string): CommitStatus => ({ context, state: "pending", description: "queued" });

test("two concurrent writes for one commit keep each other's statuses", async () => {
  const [forge, reports] = [fakeForge(), fakeReports()];
  const target = { forge, reports };
  await Promise.all([writeStatuses(target, commit, [line("a")]), writeStatuses(target, commit, [line("b")])]);

  expect((await reports.statuses(commit)).map(({ context }) => context).toSorted()).toEqual(["a", "b"]);
});

test("statuses written before a rejection are remembered, and the rest are not", async () => {
  const [forge, reports] = [fakeForge(), fakeReports()];
  const refusing = {
    setStatus: (...asked: Parameters<typeof forge.setStatus>) =>
      asked[1].context === "b" ? Promise.reject(new Error("refused")) : forge.setStatus(...asked),
  };
  const writing = writeStatuses({ forge: refusing, reports }, commit, ["a", "b", "c"].map(line));

  await expect(writing).rejects.toThrow("refused");
  expect(await reports.statuses(commit)).toEqual([line("a")]);
});
