import { expect, test } from "vitest";
import { ForgeError, RemoteBusyError } from "../../../src/errors.ts";
import { type Condition, followsGit, keyText } from "../../../src/model.ts";
import { createEnvironmentWriter } from "../../../src/reporting/environments/write-environments.ts";
import { followRollout } from "../../../src/reporting/rollout.ts";
import { endPending } from "../../../src/reporting/write-statuses.ts";
import { createCommitStatusWriter } from "../../../src/reporting/write-commit-status.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakePosted } from "../../support/fake-posted.ts";
import { aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";

const pushed = "c".repeat(40);
const ready: Condition = {
  type: "Ready",
  status: "True",
  reason: "ReconciliationSucceeded",
  message: "deploy succeeded.",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

function setUp(...deployments: ReturnType<typeof aDeployment>[]) {
  return setUpWith(fakeForge(), ...deployments);
}

function setUpWith(forge: ReturnType<typeof fakeForge>, ...deployments: ReturnType<typeof aDeployment>[]) {
  const cluster = fakeDeployments(...deployments);
  const sources = fakeSources({ "refs/heads/main": pushed });
  const reports = fakeReports();
  const queue = fakeQueue();
  const known: { synced: boolean; page?: string } = { synced: true };
  const writer = createCommitStatusWriter({
    forges: new Map([["gitea", forge]]),
    reports,
    queue,
    deployments: { ...cluster, synced: () => known.synced },
    followedRepos: () => cluster.all().flatMap((one) => (followsGit(one) ? [one.repo] : [])),
    secrets: fakeSecrets(),
    sources,
    lastMove: () => Promise.resolve("move-1"),
    urlOf: (commit) => known.page && `${known.page}/#/commit/${commit}`,
    writeEnvironments: createEnvironmentWriter({
      posted: fakePosted(),
      isEnabled: () => true,
      task: () => "towline",
      log: silentLog,
    }),
    log: silentLog,
  });
  const { repo } = aDeployment();
  const commit = { forge: "gitea", repoName: "org/shop", commit: pushed };
  const write = (of = repo) => writer({ kind: "commit-status", commit, repo: of });
  const lines = () =>
    forge.statuses.map(({ status: { context, state, description } }) => `${context} ${state} ${description}`);
  return { forge, cluster, sources, reports, queue, write, lines, known, unsettled: () => reports.unsettled(repo) };
}

test("a push is reported as queued, and then with its result", async () => {
  const { write, lines, cluster, unsettled } = setUp(aDeployment({ status: { observedCommit: "0".repeat(40) } }));
  await write();
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);
  const lastDeployResult = aSummary({ document: { gitInfo: { commit: pushed } }, changedObjects: 2 });
  const deployed = aDeployment({ status: { observedCommit: pushed, conditions: [ready], lastDeployResult } });
  cluster.objects.set("shop/prod", deployed);
  await write();
  await write();

  expect(lines()).toEqual([
    "towline/shop/prod pending queued",
    "towline pending queued",
    "towline/shop/prod success deployed: 2 changed",
    "towline success deployed: 2 changed",
  ]);
  expect(await unsettled()).toEqual([]);
});

test("a commit whose last status was rejected is written again at the next change", async () => {
  const forge = fakeForge();
  const lastDeployResult = aSummary({ document: { gitInfo: { commit: pushed } }, changedObjects: 2 });
  const status = { observedCommit: pushed, conditions: [ready], lastDeployResult };
  const { write, unsettled } = setUpWith(forge, aDeployment({ status }));
  const { setStatus } = forge;
  forge.setStatus = () => Promise.reject(new ForgeError("refused", "not with this token"));
  expect(await write()).toMatchObject({ kind: "failed" });
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);
  forge.setStatus = setStatus;
  await write();
  expect(await unsettled()).toEqual([]);
});

test("a commit is checked again if its deployment changes while git is asked", async () => {
  const { write, sources, unsettled } = setUp(aDeployment({ status: { observedCommit: pushed, conditions: [ready] } }));
  const { heads } = sources;
  const during: unknown[] = [];
  sources.heads = async (...asked) => {
    during.push(...(await unsettled()));
    return heads(...asked);
  };
  await write();
  expect(during).toMatchObject([{ commit: pushed }]);
  expect(await unsettled()).toEqual([]);
});

test("the pull request that was merged with the commit is reported again, as often as there is something new", async () => {
  const { write, reports, queue, cluster } = setUp(aDeployment({ status: { observedCommit: "0".repeat(40) } }));
  const merged = aReport({ state: "merged", mergeCommit: pushed });
  await reports.save(merged);
  await write();
  expect(queue.requests.splice(0)).toEqual([{ kind: "report", pullRequest: merged.pullRequest }]);
  const steps = [{ state: "pending" as const, text: "queued", at: 1 }];
  await reports.save({ ...merged, rollout: ["", "shop/prod"].map((deployment) => ({ deployment, steps })) });
  await write();
  expect(queue.requests.splice(0)).toEqual([]);
  const lastDeployResult = aSummary({ document: { gitInfo: { commit: pushed } }, changedObjects: 2 });
  cluster.objects.set(
    "shop/prod",
    aDeployment({ status: { observedCommit: pushed, conditions: [ready], lastDeployResult } }),
  );
  await write();
  expect(queue.requests.splice(0)).toEqual([{ kind: "report", pullRequest: merged.pullRequest }]);
});

/** `failing` deployments, then `moving` ones, and then others that are up to date, of twenty or more. */
function many(failing: number, moving: number) {
  return Array.from({ length: Math.max(20, failing + moving) }, (_, n) => {
    const failed = { ...ready, status: "False", message: "refused" } as const;
    const conditions = n < failing ? [failed] : n < failing + moving ? [] : [ready];
    const key = { namespace: "shop", name: `d${String(n).padStart(2, "0")}` };
    return aDeployment({ key, status: { observedCommit: pushed, conditions } });
  });
}

test("of many deployments, those that failed or wait are recorded for the pull request, beyond those with a status", async () => {
  const { write, reports, queue, lines, cluster } = setUp(...many(7, 2));
  const merged = aReport({ state: "merged", mergeCommit: pushed });
  const commit = { forge: "gitea", repoName: "org/shop", commit: pushed };
  await write();
  expect(await reports.rolloutRest(commit)).toBeUndefined(); // no pull request shows it
  await reports.save(merged);
  await write();
  expect(lines().filter((line) => line.includes("/d"))).toHaveLength(5);
  const rest = {
    lines: [
      { deployment: "shop/d05", state: "failure", text: "refused" },
      { deployment: "shop/d06", state: "failure", text: "refused" },
      { deployment: "shop/d07", state: "pending", text: "being checked" },
      { deployment: "shop/d08", state: "pending", text: "being checked" },
    ],
    more: 0,
  } as const;
  expect(await reports.rolloutRest(commit)).toEqual(rest);
  expect(queue.requests.splice(0)).toEqual([{ kind: "report", pullRequest: merged.pullRequest }]);

  const rollout = followRollout(undefined, await reports.statuses(commit), 1);
  await reports.save({ ...merged, rollout, rolloutRest: { ...rest, lines: [...rest.lines] } });
  await write();
  expect(queue.requests).toEqual([]);

  for (const one of many(7, 0)) cluster.objects.set(keyText(one.key), one);
  await write();
  expect((await reports.rolloutRest(commit))?.lines.map(({ deployment }) => deployment)).toEqual([
    "shop/d05",
    "shop/d06",
  ]);
  expect(queue.requests).toHaveLength(1);
});

test("while many deployments are in progress, only those that failed are recorded: twelve, and the number of the others", async () => {
  const { write, reports } = setUp(...many(30, 3));
  const commit = { forge: "gitea", repoName: "org/shop", commit: pushed };
  await reports.save(aReport({ state: "merged", mergeCommit: pushed }));
  await write();
  const rest = await reports.rolloutRest(commit);
  expect(rest?.lines.map(({ state }) => state)).toEqual(Array.from({ length: 12 }, () => "failure"));
  expect(rest?.more).toBe(30 - 5 - 12);
});

test("a commit that no deployment observed, because the next one came too soon, is reported as superseded", async () => {
  const { write, lines, cluster, sources, unsettled } = setUp(aDeployment());
  await write();
  sources.refs["refs/heads/main"] = "d".repeat(40);
  cluster.objects.set("shop/prod", aDeployment({ status: { observedCommit: "d".repeat(40), conditions: [ready] } }));
  await write();
  expect(lines().slice(2)).toEqual([
    "towline/shop/prod canceled superseded by a newer commit",
    "towline canceled superseded by a newer commit",
  ]);
  expect(await unsettled()).toEqual([]);
});

test("nothing is written as long as the deployments are not known", async () => {
  const { write, lines, known } = setUp(aDeployment());
  known.synced = false;
  expect(await write()).toMatchObject({ kind: "later" });
  expect(lines()).toEqual([]);
});

test("a commit that a pull request proposes gets its own summary once the pull request is closed", async () => {
  const { write, lines, reports, unsettled } = setUp(
    aDeployment({ status: { observedCommit: pushed, conditions: [ready] } }),
  );
  const proposing = aReport({ repo: aDeployment().repo, head: pushed });
  await reports.save(proposing);
  await write();
  expect(lines()).toEqual(["towline/shop/prod success nothing to do"]);
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);

  await reports.save({ ...proposing, state: "merged", mergeCommit: pushed });
  await write();
  expect(lines().slice(1)).toEqual(["towline success nothing to do"]);
  expect(await unsettled()).toEqual([]);
});

test("while git cannot be read, a commit stays queued and is looked at again", async () => {
  const { write, lines, sources, unsettled } = setUp(aDeployment());
  await write();
  sources.failing.error = new Error("no route to host");
  await write();
  expect(lines()).toEqual(["towline/shop/prod pending queued", "towline pending queued"]);
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);
});

test("a slow git host does not occupy the workers that report to all hosts", async () => {
  const { write, lines, sources, unsettled } = setUp(aDeployment());
  const { heads } = sources;
  sources.heads = (repository, freshness, signal, options) =>
    options?.leaves
      ? Promise.reject(new RemoteBusyError("git.example.com/org/shop", 20_000))
      : heads(repository, freshness, signal, options);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 4_000 });
  expect(lines()).toEqual([]);
  expect(await unsettled()).toMatchObject([{ commit: pushed }]);
});

test("deployments that spell the URL of a repository in different ways share the statuses of its commits", async () => {
  const forge = fakeForge();
  const { repoName } = forge;
  forge.repoName = (repo) => repoName(repo.replace(/^ssh\./, "") as typeof repo)?.replace("org/", "Org/");
  const status = { observedCommit: pushed, conditions: [ready] };
  const source = { url: "ssh://git@ssh.git.example.com:443/org/shop", ref: { branch: "main" }, path: "" };
  const other = aDeployment({ key: { namespace: "shop", name: "ssh" }, spec: { source }, status });
  const elsewhere = aDeployment({
    key: { namespace: "shop", name: "elsewhere" },
    spec: { source: { ...source, url: "https://git.example.com/org/other" } },
    status,
  });
  const { write, lines, reports } = setUpWith(forge, aDeployment({ status }), other, elsewhere);
  await write();
  await write(other.repo);
  expect(lines()).toEqual([
    "towline/shop/prod success nothing to do",
    "towline/shop/ssh success nothing to do",
    "towline success 2 deployments: 2 up to date",
  ]);
  expect(await reports.unsettled(other.repo)).toEqual([]);
});

test("a commit that waits for a deployment with another spelling is checked when either of them changes", async () => {
  const forge = fakeForge();
  const { repoName } = forge;
  forge.repoName = (repo) => repoName(repo.replace(/^ssh\./, "") as typeof repo);
  const source = { url: "ssh://git@ssh.git.example.com:443/org/shop", ref: { branch: "main" }, path: "" };
  const other = aDeployment({ key: { namespace: "shop", name: "ssh" }, spec: { source } });
  const { write, reports } = setUpWith(forge, aDeployment(), other);
  await write();
  for (const { repo } of [aDeployment(), other])
    expect(await reports.unsettled(repo)).toMatchObject([{ commit: pushed }]);
});

test("deployments of other branches, and those pinned to a commit, are left out", async () => {
  const url = "https://git.example.com/org/shop";
  const { write, lines } = setUp(
    aDeployment({ spec: { source: { url, ref: { branch: "release" }, path: "" } } }),
    aDeployment({
      key: { namespace: "shop", name: "b" },
      spec: { source: { url, ref: { commit: pushed }, path: "" } },
    }),
  );
  await write();
  expect(lines()).toEqual([]);
});

test("if the remote cannot be read, the statuses come from the deployments alone", async () => {
  const { write, lines, sources } = setUp(aDeployment({ status: { observedCommit: pushed, conditions: [ready] } }));
  sources.failing.error = new Error("no route to host");
  await write();
  expect(lines()).toEqual(["towline/shop/prod success nothing to do", "towline success nothing to do"]);
});

test("a rate-limited forge is asked again later", async () => {
  const { write, lines, forge } = setUp(aDeployment());
  forge.fail("rate-limited", 9_000);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 9_000 });
  forge.fail();
  expect(await write()).toEqual({ kind: "done" });
  expect(lines()).toHaveLength(2);
});

test("while a pull request proposes the commit, the summary and its previews' statuses stay the pull request's", async () => {
  const { write, lines, reports } = setUp(aDeployment({ status: { observedCommit: pushed, conditions: [ready] } }));
  await reports.save(aReport({ repo: aDeployment().repo, head: pushed, baseBranch: "release" }));
  const commit = { forge: "gitea", repoName: "org/shop", commit: pushed };
  const ofPreview = { context: "towline/shop/live", state: "pending", description: "comparing", url: "u" } as const;
  await reports.saveStatuses(commit, [ofPreview]);

  await write();

  expect(lines()).toEqual(["towline/shop/prod success nothing to do"]);
  expect(await reports.statuses(commit)).toContainEqual(ofPreview);
});

test("with a public page, the statuses link to the commit's view, and are still not taken for those of a pull request", async () => {
  const deployment = aDeployment({ status: { observedCommit: "0".repeat(40) } });
  const { write, lines, forge, known, reports, cluster } = setUp(deployment);
  known.page = "https://towline.example.com";
  const commit = { forge: "gitea", repoName: "org/shop", commit: pushed };
  await write();
  await write();
  expect(lines()).toEqual(["towline/shop/prod pending queued", "towline pending queued"]);
  const urls = () => forge.statuses.map(({ status: { url } }) => url);
  expect(new Set(urls())).toEqual(new Set([`https://towline.example.com/#/commit/${pushed}`]));

  // A pull request with the same commit as its head ends: its statuses are ended, those of the push are not.
  const ofPreview = { context: "towline/shop/live", state: "pending", description: "comparing", url: "u" } as const;
  await reports.saveStatuses(commit, [ofPreview]);
  await endPending({ forge, reports }, commit, "superseded");
  expect(lines().slice(2)).toEqual(["towline/shop/live canceled superseded"]);

  // The push is known to be pending, and ends as before.
  cluster.objects.set("shop/prod", aDeployment({ status: { observedCommit: "d".repeat(40), conditions: [ready] } }));
  await write();
  expect(lines().slice(3)).toEqual([]);
  known.page = undefined;
  await write();
  expect(urls().slice(3)).toEqual([undefined, undefined]);
});

const done = (name: string) =>
  aDeployment({
    key: { namespace: "shop", name },
    spec: { target: "prod" },
    status: {
      observedCommit: pushed,
      conditions: [ready],
      lastObjectsHash: "h",
      lastDeployResult: aSummary({ document: { gitInfo: { commit: pushed } } }),
    },
  });

test("where the host has environments, the deployed commit is reported to them as well, once", async () => {
  const { write, forge, lines } = setUpWith(fakeForge({ kind: "github" }), done("api"), done("web"));
  await write();
  await write();
  expect(forge.deployments.map(({ commit, deployment }) => ({ commit, ...deployment }))).toMatchObject([
    { commit: pushed, environment: "prod", ref: "refs/heads/main", description: "deployed: 2 deployments" },
  ]);
  expect(lines()).toHaveLength(3);
});

test("a push to 200 deployments takes few requests", async () => {
  const many = Array.from({ length: 200 }, (_, i) => done(`n${i}`));
  const { write, forge } = setUpWith(fakeForge({ kind: "github" }), ...many);
  await write();
  expect(forge.calls).toEqual(["setStatus", "setDeployment"]);
});

test("if the host needs time for an environment, the job runs again and writes only what is missing", async () => {
  const forge = fakeForge({ kind: "github" });
  const { write } = setUpWith(forge, done("api"));
  const { setDeployment } = forge;
  forge.setDeployment = () =>
    Promise.reject(new ForgeError("rate-limited", "too many requests", { retryAfterMs: 9_000 }));
  expect(await write()).toMatchObject({ kind: "later", afterMs: 9_000 });
  Object.assign(forge, { setDeployment });
  expect(await write()).toEqual({ kind: "done" });
  expect(forge.calls).toEqual(["setStatus", "setStatus", "setDeployment"]);
});
