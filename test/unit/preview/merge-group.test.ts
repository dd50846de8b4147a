import { expect, test } from "vitest";
import { ForgeError, SourceError } from "../../../src/errors.ts";
import type { Heads, MergeGroupKey } from "../../../src/model.ts";
import { createMergeGroupPreview, type MergeGroupDeps } from "../../../src/preview/merge-group.ts";
import { writeGroupStatus } from "../../../src/reporting/write-group-status.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakeReports } from "../../support/fake-reports.ts";
import { fakeSecrets, silentLog } from "../../support/fakes.ts";

const base = "b".repeat(40);
const commit = "c".repeat(40);
const branch = `gh-readonly-queue/main/pr-7-${base}`;

test("a merge queue whose pull request the login cannot read gets a final status after the pending one", async () => {
  const [forge, reports] = [fakeForge(), fakeReports()];
  const deployment = aDeployment();
  const group: MergeGroupKey = { forge: forge.id, repoName: "org/shop", commit, branch, base };
  const heads: Heads = {
    defaultRef: "refs/heads/main",
    commits: new Map([
      ["refs/heads/main", base],
      [`refs/heads/${branch}`, commit],
    ]),
  };
  const refused = new ForgeError("refused", "may not read pull requests");
  const forges = new Map([
    [forge.id, { ...forge, repoName: () => "org/shop", pullRequest: () => Promise.reject(refused) }],
  ]);
  const statesOf = () => forge.statuses.map(({ status }) => status.state);
  let asked = 0;
  const deps: Partial<MergeGroupDeps> = {
    enabled: true,
    renderForks: false,
    forges,
    deployments: { all: () => [deployment], synced: () => true },
    reports,
    write: (key, following, signal) => writeGroupStatus({ forges, reports }, key, following, signal),
    secrets: fakeSecrets(),
    sources: {
      async heads() {
        if (asked++ === 0) return heads;
        await expect.poll(statesOf).toEqual(["pending"]);
        throw new SourceError("unauthorized", "the login is not accepted any more");
      },
      commitsAt: () => Promise.resolve(new Map()),
      merge: () => Promise.reject(new Error("nothing is merged")),
    },
    settings: {},
    clock: { now: () => 0 },
    log: silentLog,
    sleep: () => Promise.resolve(),
  };
  const preview = createMergeGroupPreview(deps as MergeGroupDeps);

  const attempt = { attempt: 1, lastAttempt: false, signal: new AbortController().signal };
  await preview({ kind: "merge-group", group, ended: false }, attempt);

  expect(statesOf()).toEqual(["pending", "failure"]);
});
