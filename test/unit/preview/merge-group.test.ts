import { expect, test } from "vitest";
import { ForgeError, PrepareError, SourceError } from "../../../src/errors.ts";
import {
  annotation,
  type CommandResult,
  type Heads,
  type MergeGroupKey,
  type RepoId,
  type Run,
} from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { createKnownReferences } from "../../../src/preview/references.ts";
import { createMergeGroupPreview, type MergeGroupDeps } from "../../../src/preview/merge-group.ts";
import { writeGroupStatus } from "../../../src/reporting/write-group-status.ts";
import { aDeployment, aResult } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakeReports } from "../../support/fake-reports.ts";
import { fakeReadIdentity, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";
import { aChange, inFolder, named } from "../../support/preview.ts";

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
    write: (key, repo, signal) => writeGroupStatus({ forges, reports }, key, repo, signal),
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

const library = "https://git.example.com/org/library";
const ahead = "a".repeat(40);
const own = "d".repeat(40);

interface LibraryOptions {
  readonly previewIn?: string;
  readonly diff?: (run: Run) => CommandResult | Error;
  readonly tip?: string;
}

/** A merge queue of a library, which one deployment includes and none follows. */
async function previewLibrary({ previewIn = library, diff = () => aChange, tip = commit }: LibraryOptions = {}) {
  const [forge, reports] = [fakeForge(), fakeReports()];
  forge.put(7, { key: { forge: forge.id, repoName: "org/library", number: 7 }, head: "1".repeat(40) });
  forge.put(6, { key: { forge: forge.id, repoName: "org/library", number: 6 }, head: "1".repeat(40) });
  const repoName = (repo: RepoId) => repo.replace("git.example.com/", "");
  const forges = new Map([[forge.id, { ...forge, repoName }]]);
  const queued = `gh-readonly-queue/main/pr-7-${ahead}`;
  const sources = fakeSources({
    "refs/heads/main": base,
    "refs/heads/feature": "1".repeat(40),
    "refs/heads/stable": own,
    [`refs/heads/gh-readonly-queue/main/pr-6-${base}`]: ahead,
    [`refs/heads/${queued}`]: tip,
  });
  sources.nextMerge.inBase = true;
  const consumerUrl = "https://git.example.com/org/consumer";
  const consumer = named("prod", {
    spec: inFolder("app", { url: consumerUrl, ref: { branch: "stable" } }),
    repo: repoId(consumerUrl)!,
    annotations: { [annotation.includes]: `${library} refs/heads/main`, [annotation.previewIn]: previewIn },
  });
  const runs: Run[] = [];
  const deps: Partial<MergeGroupDeps> = {
    enabled: true,
    renderForks: false,
    forges,
    deployments: { all: () => [consumer], synced: () => true },
    reports,
    write: (key, repo, signal) => writeGroupStatus({ forges, reports }, key, repo, signal),
    secrets: fakeSecrets(),
    sources,
    kluctl: {
      diff(run) {
        runs.push(run);
        const answer = diff(run);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
      render: () => Promise.reject(new Error("nothing is rendered alone")),
    },
    limit: (work) => work(),
    readIdentity: fakeReadIdentity(),
    references: createKnownReferences(),
    settings: {},
    clusterName: () => Promise.resolve("eu-1"),
    newId: () => "id-1",
    clock: { now: () => 0 },
    log: silentLog,
    sleep: (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error()))),
  };
  const group: MergeGroupKey = { forge: forge.id, repoName: "org/library", commit, branch: queued, base: ahead };
  const attempt = { attempt: 1, lastAttempt: true, signal: new AbortController().signal };
  const outcome = await createMergeGroupPreview(deps as MergeGroupDeps)(
    { kind: "merge-group", group, ended: false },
    attempt,
  );
  return { outcome, runs, sources, statuses: forge.statuses.map(({ status }) => [status.state, status.description]) };
}

const included = ({ localOverrides = [] }: Run) => localOverrides[0]?.path;

test("a library's group is compared in the deployments that include it, with the base branch, not with the group ahead", async () => {
  const diff = (run: Run) => (included(run) === "/merge/" ? aChange : aResult());
  const { outcome, runs, sources, statuses } = await previewLibrary({ diff });
  expect(outcome).toEqual({ kind: "done" });
  expect(statuses).toEqual([["success", "changes 1 deployment: 1 object changed; includes #6, #7"]]);
  expect(sources.merges).toMatchObject([
    { url: library, head: commit, base: ahead, isMerged: true, tip: base },
    { url: "https://git.example.com/org/consumer", head: own, base: own },
  ]);
  expect(runs.map(included)).toEqual(["/merge/", `/${base}/`]);
  expect(sources.released).toHaveLength(2);
});

test("a group of a library is not compared where its pull requests may not be shown", async () => {
  const { statuses, runs, sources } = await previewLibrary({ previewIn: "" });
  expect(statuses).toEqual([["success", "no deployment is affected"]]);
  expect([runs, sources.merges]).toEqual([[], []]);
});

test("a library's group that breaks a deployment fails, and one that is not to blame does not", async () => {
  const broken = new PrepareError("deployment.yaml: no such file");
  const inMerge = await previewLibrary({ diff: (run) => (included(run) === "/merge/" ? broken : aChange) });
  expect(inMerge.statuses).toEqual([["failure", expect.stringContaining("shop/prod: deployment.yaml")]]);
  const before = await previewLibrary({ diff: () => broken });
  expect(before.statuses).toEqual([["success", expect.not.stringContaining("shop/prod")]]);
});

test("a library's group that git does not have is not compared", async () => {
  const { outcome, runs } = await previewLibrary({ tip: own });
  expect([outcome.kind, runs]).toEqual(["skipped", []]);
});
