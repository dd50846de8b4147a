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

const detailed = (text: string): CommitStatus => ({
  ...{ context: "towline", state: "success", description: "no changes" },
  details: { text, notes: [] },
});

test("a check run is written again for another text, a commit status is not", async () => {
  for (const form of ["check", "status"] as const) {
    const [forge, reports] = [fakeForge({ form }), fakeReports()];
    for (const text of ["one", "one", "two"]) await writeStatuses({ forge, reports }, commit, [detailed(text)]);
    const shown = forge.statuses.map(({ status }) => status.details?.text);
    expect(shown).toEqual(form === "check" ? ["one", "two"] : ["one"]);
    expect(JSON.stringify(await reports.statuses(commit))).not.toContain("details");
  }
});

test("check runs that are requested again are written once more, and commit statuses are not", async () => {
  for (const form of ["check", "status"] as const) {
    const [forge, reports] = [fakeForge({ form }), fakeReports()];
    const write = () => writeStatuses({ forge, reports }, commit, [line("a"), line("b")]);
    await write();
    await reports.addRerun(commit);
    for (let i = 0; i < 2; i++) await write();
    expect(forge.statuses).toHaveLength(form === "check" ? 4 : 2);
    expect(await reports.statuses(commit)).toMatchObject([line("a"), line("b")]);
  }
});

test("a check run that is requested again while it is being written is written once more", async () => {
  const [forge, reports] = [fakeForge({ form: "check" }), fakeReports()];
  const busy = {
    async setStatus(...asked: Parameters<typeof forge.setStatus>) {
      const form = await forge.setStatus(...asked);
      // The host shows it, so that its button can be pressed, before it is recorded.
      if (forge.statuses.length === 1) await reports.addRerun(commit);
      return form;
    },
  };
  for (let i = 0; i < 3; i++) await writeStatuses({ forge: busy, reports }, commit, [line("a")]);
  expect(forge.statuses).toHaveLength(2);
});

test("several go to a host that takes them together, and those that it shows are remembered", async () => {
  const [forge, reports] = [fakeForge(), fakeReports()];
  const asked: string[][] = [];
  const together = {
    ...forge,
    async setStatuses(
      _: unknown,
      statuses: readonly CommitStatus[],
      onShown: (status: CommitStatus, form: "check") => void,
    ) {
      asked.push(statuses.map(({ context }) => context));
      for (const status of statuses) {
        if (status.context === "c") throw new Error("refused");
        onShown(status, "check");
      }
    },
  };
  const write = (contexts: readonly string[]) =>
    writeStatuses({ forge: together, reports }, commit, contexts.map(line));
  await expect(write(["a", "b", "c"])).rejects.toThrow("refused");
  expect((await reports.statuses(commit)).map(({ context }) => context)).toEqual(["a", "b"]);
  await write(["a", "b", "d", "e"]);
  await write(["a", "e"]);
  expect(asked).toEqual([
    ["a", "b", "c"],
    ["d", "e"],
  ]);
  expect(forge.statuses).toEqual([]);
});
