import { expect, test } from "vitest";
import { QueueUnavailableError, RemoteBusyError } from "../../../src/errors.ts";
import { annotation, pullRequestText, type StatusForm } from "../../../src/model.ts";
import type { Report } from "../../../src/model/report.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { createMarker } from "../../../src/reporting/marker.ts";
import { latestResult } from "../../../src/preview/previous.ts";
import { createReportWriter, type ReportWriterDeps } from "../../../src/reporting/write-report.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { aPreview, aReport, baseCommit, fakeQueue, fakeReports, headCommit } from "../../support/fake-reports.ts";
import { fakeDeployments, fakeSecrets, fakeSources, silentLog } from "../../support/fakes.ts";
import { aKustomization, fakeFlux } from "../../support/flux.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const text = pullRequestText(key);
const { repo } = aDeployment();
const seenAt = Date.parse("2026-01-01T00:01:00Z");
const marker = createMarker({ secrets: ["a secret of the webhook"], instance: "cluster-a", owner: "" });

const renderShort: ReportWriterDeps["render"] = ({ head, state, staleUntil, waiting }, { marker: line }) =>
  `${line}\n${head} ${state}${staleUntil === undefined ? "" : ` until ${staleUntil}`}${waiting ? `, not ${waiting.head}` : ""}`;

async function setUp(
  overrides: Partial<Report> = {},
  form?: StatusForm,
  deployment = aDeployment(),
  render = renderShort,
) {
  const forge = fakeForge({ form });
  forge.put(7, { head: headCommit });
  const reports = fakeReports();
  await reports.save(aReport(overrides));
  const queue = fakeQueue();
  const sources = fakeSources({ "refs/heads/main": baseCommit });
  let passed = 0;
  const preview: { waitedMs?: number } = {};
  const cluster = fakeDeployments(deployment);
  const flux = fakeFlux();
  const writer = createReportWriter({
    forges: new Map([["gitea", forge]]),
    reports,
    queue,
    deployments: { ...cluster, synced: () => true },
    fluxDeployments: flux.fluxDeployments,
    speaksFor: () => true,
    secrets: fakeSecrets(),
    sources,
    render,
    markerOf: () => Promise.resolve(marker),
    waitedMs: () => Promise.resolve(preview.waitedMs),
    clock: { now: () => seenAt + passed },
    log: silentLog,
  });
  const write = (number = 7) => writer({ kind: "report", pullRequest: { ...key, number } });
  const bodies = () => (forge.comments.get(text) ?? []).map(({ body }) => body.split("\n").at(-1));
  const lines = () => forge.statuses.map(({ commit, status }) => [commit.commit, status.context, status.state]);
  const pass = (ms: number) => void (passed += ms);
  const owed = () => reports.unpublished("gitea", -60_000);
  return { forge, reports, queue, sources, write, bodies, lines, pass, cluster, flux, owed, preview };
}

test("a report becomes one comment, a status for each deployment and a summary status", async () => {
  const { write, bodies, lines, forge } = await setUp();

  expect(await write()).toEqual({ kind: "done" });

  expect(bodies()).toEqual([`${headCommit} done`]);
  expect(lines()).toEqual([
    [headCommit, "towline/shop/prod", "success"],
    [headCommit, "towline", "success"],
  ]);
  expect(forge.statuses[0]?.status.url).toContain("#comment-");
});

test("the questions about a report are asked together: none waits for the answer to another", async () => {
  const { write, forge, sources, bodies } = await setUp();
  const { promise: allAsked, resolve } = Promise.withResolvers<void>();
  const missing = new Set(["pull request", "comments", "base"]);
  const asked = async <T>(what: string, answer: () => Promise<T>): Promise<T> => {
    missing.delete(what);
    if (missing.size === 0) resolve();
    await allAsked;
    return answer();
  };
  const { pullRequest, ownComments } = forge;
  const { heads } = sources;
  forge.pullRequest = (...args) => asked("pull request", () => pullRequest(...args));
  forge.ownComments = (...args) => asked("comments", () => ownComments(...args));
  sources.heads = (...args) => asked("base", () => heads(...args));

  expect(await write()).toEqual({ kind: "done" });

  expect(bodies()).toEqual([`${headCommit} done`]);
});

test("writing an unchanged report again writes nothing", async () => {
  const { write, forge } = await setUp();
  await write();
  forge.calls.length = 0;

  await write();

  expect(forge.calls.toSorted()).toEqual(["ownComments", "pullRequest"]);
});

test("the comment is edited in place, and created again after a user deleted it", async () => {
  const { write, bodies, forge, reports } = await setUp({ state: "working" });
  await write();
  const first = forge.comments.get(text)?.[0]?.id;
  await reports.save(aReport());
  await write();
  expect(forge.comments.get(text)?.map(({ id }) => id)).toEqual([first]);
  expect(bodies()).toEqual([`${headCommit} done`]);

  forge.comments.clear();
  await write();
  expect(bodies()).toEqual([`${headCommit} done`]);
});

test("a comment that is deleted between the check and the write is created again", async () => {
  const { write, bodies, forge, reports } = await setUp({ state: "working" });
  await write();
  await reports.save(aReport());
  forge.updateComment = async (_, id) => {
    await forge.deleteComment(key, id);
    return undefined;
  };

  await write();

  expect(bodies()).toEqual([`${headCommit} done`]);
});

test("other comments of the same login, with other markers or none, are left alone", async () => {
  const { write, forge } = await setUp();
  const other = createMarker({ secrets: ["a secret of the webhook"], instance: "cluster-b", owner: "" });
  for (const body of ["hello", other.text(key), marker.text({ ...key, number: 8 })]) {
    await forge.createComment(key, body);
  }

  await write();

  expect(forge.comments.get(text)).toHaveLength(4);
});

test("two replicas that both found no comment leave only one", async () => {
  const { write, forge, bodies } = await setUp();
  const find = forge.ownComments;
  let looked = 0;
  let both: () => void;
  const bothLooked = new Promise<void>((resolve) => (both = resolve));
  forge.ownComments = async (...args) => {
    const found = await find(...args);
    if (++looked === 2) both();
    await bothLooked;
    return looked <= 2 ? found : find(...args);
  };

  await Promise.all([write(), write()]);

  expect(bodies()).toEqual([`${headCommit} done`]);
});

test.each<[string, Parameters<ReturnType<typeof fakeForge>["put"]>[1], string]>([
  ["of an older head", { head: "2".repeat(40) }, "there is a newer head"],
  ["into another branch", { baseBranch: "release" }, "the base was changed"],
  ["of a pull request that is closed by now", { state: "closed" }, "it is closed now"],
])("a report %s is not shown, and the preview is requested again", async (_, change, why) => {
  const { write, forge, queue } = await setUp();
  forge.put(7, change);

  expect(await write()).toEqual({ kind: "skipped", why });

  expect(forge.calls.toSorted()).toEqual(["ownComments", "pullRequest"]);
  expect(queue.requests).toEqual([{ kind: "preview", pullRequest: key, cause: "pull-request" }]);
});

test("the comment names a newer commit whose preview waits for others, once, and nothing else is written", async () => {
  const { write, forge, queue, bodies, preview, owed, reports } = await setUp();
  await write();
  const newer = "2".repeat(40);
  forge.put(7, { head: newer });
  const written = forge.statuses.length;
  preview.waitedMs = 5_000; // most start sooner
  expect(await write()).toEqual({ kind: "skipped", why: "there is a newer head" });
  expect(bodies()).toEqual([`${headCommit} done`]);
  queue.requests.length = 0;

  preview.waitedMs = 10_000;
  for (let n = 0; n < 2; n++)
    expect(await write()).toEqual({ kind: "skipped", why: "its next preview waits for others" });
  expect(bodies()).toEqual([`${headCommit} done, not ${newer}`]);
  expect(forge.calls.filter((call) => call === "updateComment")).toHaveLength(1);
  expect(forge.statuses).toHaveLength(written);
  expect(queue.requests).toEqual([]);
  expect(await owed()).toEqual([key]);
  // So does its page.
  const waiting = { head: newer, baseBranch: "main" };
  expect(await reports.stale(key)).toEqual({ startedAt: aReport().startedAt, waiting });

  // It was aborted while it was compared, and nothing is known of the newer commit.
  await reports.save(aReport({ state: "working", previews: [], latest: latestResult(aReport(), "base") }));
  await write();
  expect(bodies()).toEqual([`${headCommit} done, not ${newer}`]);
  await reports.save(aReport({ state: "working", previews: [] }));
  expect(await write()).toEqual({ kind: "skipped", why: "there is a newer head" });
});

test("a pull request that is back at what was compared waits for nothing, on its page as in its comment", async () => {
  const { write, forge, bodies, preview, reports } = await setUp();
  const { startedAt } = aReport();
  await reports.setStale(key, { startedAt, until: 5 });
  forge.put(7, { head: "2".repeat(40) });
  preview.waitedMs = 10_000;
  await write();
  expect(await reports.stale(key)).toMatchObject({ until: 5, waiting: { head: "2".repeat(40) } });
  forge.put(7, { head: headCommit });
  await write();
  expect(bodies()).toEqual([`${headCommit} done until 5`]);
  expect(await reports.stale(key)).toEqual({ startedAt, until: 5 });
});

test("what a preview notes while the host is asked is kept when a report begins or ends to wait", async () => {
  const { write, forge, preview, reports } = await setUp();
  const { startedAt } = aReport();
  const waiting = { head: "2".repeat(40), baseBranch: "main" };
  const { pullRequest } = forge;
  let noted: object = {};
  forge.pullRequest = async (...asked) => {
    await reports.setStale(key, { ...(await reports.stale(key)), startedAt, ...noted });
    return pullRequest(...asked);
  };
  forge.put(7, { head: waiting.head });
  preview.waitedMs = 10_000;
  noted = { until: 5 };
  await write();
  expect(await reports.stale(key)).toEqual({ startedAt, until: 5, waiting });

  forge.put(7, { head: headCommit });
  noted = { until: 9, reported: true };
  await write();
  expect(await reports.stale(key)).toEqual({ startedAt, until: 9, reported: true });
});

test("the base of a library is read under the URL that the shown deployment includes", async () => {
  const library = "https://git.example.com/org/library";
  const consumer = aDeployment({ annotations: { [annotation.includes]: `${library} refs/heads/main` } });
  const previews = [aPreview({ includes: true })];
  const { write, sources, bodies } = await setUp({ previews, repo: repoId(library) }, undefined, consumer);
  expect(await write()).toEqual({ kind: "done" });
  expect(sources.asked).toEqual([library]);
  expect(bodies()).toHaveLength(1);
  sources.refs["refs/heads/main"] = "c".repeat(40);
  expect(await write()).toEqual({ kind: "skipped", why: "the base moved" });
});

test("a library's pull request that only says why nothing is compared gets its comment", async () => {
  const unshown = [{ deployment: "shop/prod", reason: "it also includes this repository at `v1`" }];
  const { write, bodies } = await setUp({ previews: [], unshown });
  await write();
  expect(bodies()).toHaveLength(1);
});

test("a report for a base that has moved is requested again, unless the base moves all the time", async () => {
  const { write, sources, queue, bodies, reports } = await setUp();
  sources.refs["refs/heads/main"] = "c".repeat(40);
  expect(await write()).toEqual({ kind: "skipped", why: "the base moved" });
  expect(queue.requests).toEqual([{ kind: "preview", pullRequest: key, cause: "base" }]);
  expect(bodies()).toEqual([]);

  await reports.save(aReport({ restarts: 3 }));
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toHaveLength(1);
});

test("a remote that cannot be asked for the base does not prevent the comment", async () => {
  const { write, sources, bodies } = await setUp();
  sources.failing.error = new Error("no route to host");
  await write();
  expect(bodies()).toHaveLength(1);
});

test("if no deployment is affected there is no comment, and the summary status says so", async () => {
  const { write, forge, bodies } = await setUp({ previews: [], base: undefined });

  await write();

  expect(bodies()).toEqual([]);
  expect(forge.statuses.map(({ status }) => [status.context, status.state, status.description])).toEqual([
    ["towline", "success", "no deployment is affected"],
  ]);
});

test("a deployment that is no longer affected does not stay pending or failed", async () => {
  const { write, reports, lines } = await setUp({ state: "working", previews: [aPreview({ state: "working" })] });
  await write();
  await reports.save(aReport({ previews: [] }));
  await write();
  expect(lines().at(-1)).toEqual([headCommit, "towline/shop/prod", "success"]);
});

test("pending statuses of earlier heads end", async () => {
  const earlier = "e".repeat(40);
  const { write, reports, forge, lines } = await setUp({ head: earlier, state: "working" });
  forge.put(7, { head: earlier });
  await write();
  forge.put(7, { head: headCommit });
  await reports.save(aReport({ earlierHeads: [earlier] }));

  await write();

  expect(lines()).toContainEqual([earlier, "towline", "canceled"]);
  expect(forge.statuses.at(-1)?.status.description).toBe("superseded by 1111111");
});

test("the comment of a closed pull request is edited, and none is created", async () => {
  const { write, forge, reports, bodies } = await setUp();
  await write();
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged" }));
  await write();
  expect(bodies()).toEqual([`${headCommit} merged`]);

  forge.comments.clear();
  await write();
  expect(bodies()).toEqual([]);
});

test("a comment that already shows the merge keeps the last preview if the report has none", async () => {
  const { write, forge, reports, bodies } = await setUp();
  const told = `${marker.text(key)}\n\n### Towline: merged into \`main\`\n\nResult of the last preview`;
  await forge.createComment(key, told);
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged", previews: [] }));
  await write();
  expect(bodies()).toEqual(["Result of the last preview"]);

  // It is updated if it says something else, or if the report has a preview.
  forge.put(7, { state: "closed" });
  await reports.save(aReport({ state: "closed", previews: [] }));
  await write();
  expect(bodies()).toEqual([`${headCommit} closed`]);
  await forge.updateComment(key, forge.comments.get(text)?.[0]?.id ?? "", told);
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged" }));
  await write();
  expect(bodies()).toEqual([`${headCommit} merged`]);
});

test("a pull request that was closed with another head than the last preview gets its comment", async () => {
  const { write, forge, reports, queue, bodies } = await setUp();
  await write();
  const head = "2".repeat(40);
  forge.put(7, { state: "closed", head });
  await reports.save(aReport({ state: "closed", head, base: undefined, earlierHeads: [headCommit] }));
  await write();
  expect(bodies()).toEqual([`${head} closed`]);
  expect(queue.requests).toEqual([]);
});

test("a rate-limited forge is retried after the wait that it asked for, and then everything is written", async () => {
  const { write, forge, bodies } = await setUp();
  forge.fail("rate-limited", 42_000);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 42_000 });
  forge.fail("unreachable");
  expect(await write()).toMatchObject({ kind: "later" });
  forge.fail();
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toHaveLength(1);
});

test("rejected statuses do not prevent the comment, nor the other way round", async () => {
  const { write, forge, bodies, lines } = await setUp();
  const { setStatus, createComment } = forge;
  forge.setStatus = (...args) => {
    forge.fail("unauthorized");
    return setStatus(...args).finally(() => forge.fail());
  };
  expect(await write()).toMatchObject({ kind: "failed", retry: "person" });
  expect(bodies()).toHaveLength(1);

  forge.setStatus = setStatus;
  forge.comments.clear();
  forge.createComment = (...args) => {
    forge.fail("rate-limited", 1_000);
    return createComment(...args).finally(() => forge.fail());
  };
  expect(await write()).toMatchObject({ kind: "later", afterMs: 1_000 });
  expect(lines()).toHaveLength(2);
});

test("a report that a forge rejected is remembered until the forge accepts it", async () => {
  const { write, forge, reports, bodies } = await setUp();
  forge.fail("unauthorized");
  expect(await write()).toMatchObject({ kind: "failed" });
  expect(await reports.refused("gitea")).toEqual([key]);
  forge.fail("unreachable");
  expect(await write()).toMatchObject({ kind: "later" });
  expect(await reports.refused("gitea")).toEqual([key]);

  forge.fail();
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toHaveLength(1);
  expect(await reports.refused("gitea")).toEqual([]);
});

test("a pull request that the host does not find for a moment is looked for again, for some minutes", async () => {
  const { write, forge, pass, bodies } = await setUp();
  const pullRequest = forge.pullRequests.get(text)!;
  forge.pullRequests.clear();
  let waitedMs = 0;
  for (let outcome = await write(); outcome.kind === "later"; outcome = await write()) {
    pass(outcome.afterMs);
    waitedMs += outcome.afterMs;
  }
  expect(await write()).toEqual({ kind: "skipped", why: "the pull request was deleted" });
  expect(waitedMs).toBeGreaterThanOrEqual(300_000);
  expect(waitedMs).toBeLessThan(600_000);

  forge.pullRequests.set(text, pullRequest);
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toHaveLength(1);
  forge.pullRequests.clear();
  expect(await write()).toMatchObject({ kind: "later" });
});

test("a missing report or forge is not a failure", async () => {
  const { write, reports, owed } = await setUp();
  reports.saved.clear();
  expect(await write()).toMatchObject({ kind: "skipped" });
  expect(await owed()).toEqual([]);
});

test("a report is to be published until the host has accepted all of it", async () => {
  const { write, forge, reports, owed } = await setUp();
  await reports.setUnpublished(key);
  forge.fail("unreachable");
  await write();
  expect(await owed()).toEqual([key]);
  forge.fail();
  forge.pullRequests.clear();
  await write();
  expect(await owed()).toEqual([key]);
  forge.put(7, { head: "9".repeat(40) });
  expect(await write()).toMatchObject({ kind: "skipped" });
  expect(await owed()).toEqual([key]);
  forge.put(7, { head: headCommit });
  expect(await write()).toEqual({ kind: "done" });
  expect(await owed()).toEqual([]);
});

test("a report whose job ended with Redis is to be published, without a mark of its preview, too", async () => {
  const { write, reports, owed } = await setUp();
  const saveStatuses = reports.saveStatuses;
  reports.saveStatuses = () => Promise.reject(new QueueUnavailableError("Redis is away"));
  await expect(write()).rejects.toThrow("Redis is away");
  expect(await owed()).toEqual([key]);
  reports.saveStatuses = saveStatuses;
  await write();
  expect(await owed()).toEqual([]);
});

test("what is saved while the report before it is written is still to be published", async () => {
  const { write, forge, reports, owed } = await setUp();
  const { createComment } = forge;
  forge.createComment = async (...args) => {
    await reports.setUnpublished(key);
    return createComment(...args);
  };
  expect(await write()).toEqual({ kind: "done" });
  expect(await owed()).toEqual([key]);
});

test("a rejected report has a record of its own", async () => {
  const { write, forge, owed } = await setUp();
  forge.fail("unauthorized");
  await write();
  expect(await owed()).toEqual([]);
});

test.each<[string, Partial<Report>, string[]]>([
  ["merged", { state: "merged", mergeCommit: "e".repeat(40) }, ["1", "e"]],
  ["closed", { state: "closed" }, ["1"]],
  ["open, and has other commits now", { earlierHeads: ["2".repeat(40)] }, ["2"]],
])("a pull request that is %s leaves the summaries of its commits to their deployments", async (_, report, commits) => {
  const { write, forge, reports, queue } = await setUp({ repo, ...report });
  forge.put(7, { head: headCommit, state: report.state === "done" ? "open" : ((report.state ?? "open") as "open") });
  const commit = (of: string) => ({ forge: "gitea", repoName: "org/shop", commit: of.repeat(40) });
  for (const of of ["1", "2", "3", "e"]) await reports.setUnsettled(commit(of), repo, true);
  expect(await write()).toEqual({ kind: "done" });
  expect(queue.requests).toEqual(commits.map((of) => ({ kind: "commit-status", commit: commit(of), repo })));
});

test("a slow git host does not delay a comment: whether the base moved is found by the next push", async () => {
  const { write, sources, bodies } = await setUp();
  sources.heads = (_repository, _freshness, _signal, options) =>
    options?.leaves ? Promise.reject(new RemoteBusyError("git.example.com/org/shop", 20_000)) : new Promise(() => {});
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toHaveLength(1);
});

/** Another pull request that proposes the same commit. */
function another(number: number, overrides: Partial<Report> = {}): Report {
  return aReport({ repo, pullRequest: { ...key, number }, url: `https://git.example.com/${number}`, ...overrides });
}

test.each<[string, Partial<Report>]>([
  ["a fork", { obstacle: { kind: "fork" }, previews: [] }],
  ["a branch that nobody follows", { baseBranch: "docs", previews: [] }],
  ["another branch, where all is well", { baseBranch: "release", previews: [aPreview()] }],
])("a failed check cannot be made to pass by proposing the same commit from or into %s", async (_, overrides) => {
  const failing = { repo, previews: [aPreview({ state: "failed", failure: "no such target" })] };
  const { write, forge, reports } = await setUp(failing);
  await write();
  await reports.save(another(8, overrides));
  forge.put(8, { head: headCommit, baseBranch: overrides.baseBranch ?? "main" });
  const sum = () => forge.statuses.findLast(({ status }) => status.context === "towline")?.status;

  await write(8);
  expect(sum()).toMatchObject({ state: "failure", description: "would fail: 1 deployment cannot be rendered" });

  forge.put(8, { state: "closed" });
  await reports.save(another(8, { ...overrides, state: "closed" }));
  await write(8);
  expect(sum()).toMatchObject({ state: "failure" });
});

test("a check that was written from an older state of the other pull request is written again", async () => {
  const { write, forge, reports, queue } = await setUp({ repo });
  await reports.save({ ...another(8, { baseBranch: "release" }), state: "working" });
  forge.put(8, { head: headCommit, baseBranch: "release" });
  const { setStatus } = forge;
  forge.setStatus = async (...asked) => {
    await reports.save(another(8, { baseBranch: "release" }));
    return setStatus(...asked);
  };
  await write();
  expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);

  forge.setStatus = setStatus;
  queue.requests.length = 0;
  await write();
  expect(queue.requests).toEqual([]);
});

test("when the other pull request gets a new head, the check is requested again", async () => {
  const next = "2".repeat(40);
  const { write, forge, reports, queue } = await setUp({ repo, head: next, earlierHeads: [headCommit] });
  forge.put(7, { head: next });
  await reports.save(another(8));

  await write();

  expect(queue.requests).toEqual([{ kind: "report", pullRequest: { ...key, number: 8 } }]);
});

test("pull requests that have swapped their heads do not request each other for ever", async () => {
  const swapped = "2".repeat(40);
  const { write, forge, reports, queue } = await setUp({ repo, earlierHeads: [swapped] });
  await reports.save(another(8, { head: swapped, earlierHeads: [headCommit] }));
  forge.put(8, { head: swapped });

  await write(7);
  await write(8);
  expect(queue.requests.splice(0)).not.toEqual([]);
  await write(7);
  await write(8);

  expect(queue.requests).toEqual([]);
});

test("statuses of a deploy of the same commit are left alone", async () => {
  const { write, reports, forge, lines } = await setUp({ state: "working" });
  const commit = { forge: "gitea", repoName: "org/shop", commit: headCommit };
  await reports.saveStatuses(commit, [
    { context: "towline/shop/staging", state: "pending", description: "being deployed" },
  ]);
  await write();
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged" }));
  await write();

  expect(lines().map(([, context]) => context)).not.toContain("towline/shop/staging");
});

test("after the merge the deploy's statuses are not overwritten", async () => {
  const { write, reports, forge, lines } = await setUp();
  await write();
  const before = lines().length;
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged" }));
  await write();
  expect(lines()).toHaveLength(before);
});

const mergeCommit = "e".repeat(40);
const ofMerge = { forge: "gitea", repoName: "org/shop", commit: mergeCommit };
const failed = { context: "towline/shop/prod", state: "failure", description: "ConfigMap a: refused" } as const;

test("the comment of a merged pull request follows the statuses of its merge", async () => {
  const { write, reports, forge, bodies } = await setUp();
  await write();
  forge.put(7, { state: "merged" });
  await reports.save(aReport({ state: "merged", mergeCommit }));
  await reports.saveStatuses(ofMerge, [{ ...failed, state: "success", description: "deployed: 1 changed" }]);
  await write();
  expect(bodies()).toEqual([`${headCommit} merged`]);
  expect((await reports.find(key))?.rollout).toMatchObject([
    { deployment: "shop/prod", steps: [{ state: "success", text: "deployed: 1 changed", at: seenAt }] },
  ]);
});

test("the comment of a merged pull request follows what has no status of its own, too", async () => {
  const { write, reports, forge } = await setUp({ state: "merged", mergeCommit });
  forge.put(7, { state: "merged" });
  const lines = [{ deployment: "shop/a", state: "pending" as const, text: "waiting for approval" }];
  await reports.saveStatuses(ofMerge, [
    { context: "towline", state: "pending", description: "20 deployments: 1 pending" },
  ]);
  await reports.setRolloutRest(ofMerge, { lines, more: 2 });
  await write();
  expect((await reports.find(key))?.rolloutRest).toEqual({ lines, more: 2 });
  await reports.setRolloutRest(ofMerge, undefined);
  await write();
  expect((await reports.find(key))?.rolloutRest).toBeUndefined();
});

const at = (observedCommit: string, status: "True" | "False") => {
  const more = { reason: "DeployFailed", message: "refused", lastTransitionTime: "2026-01-01T00:00:00Z" };
  return aDeployment({ status: { observedCommit, conditions: [{ type: "Ready", status, ...more }] } });
};

/** A merged pull request whose rollout fails, and a clock that the test moves. */
async function setUpFailing(overrides: Partial<Report> = {}) {
  const world = await setUp();
  await world.write();
  world.forge.put(7, { state: "merged" });
  await world.reports.save(aReport({ state: "merged", mergeCommit, author: "ann", ...overrides }));
  await world.reports.saveStatuses(ofMerge, [failed]);
  world.cluster.objects.set("shop/prod", at(mergeCommit, "False"));
  const told = () =>
    (world.forge.comments.get(text) ?? []).map(({ body }) => body).filter((body) => body.includes("@"));
  return { ...world, told };
}

test("the author of a merge whose rollout fails is told once, when it does not recover by itself", async () => {
  const { write, told, reports, pass } = await setUpFailing();
  expect(await write()).toMatchObject({ kind: "later", afterMs: 15_000 });
  expect(told()).toEqual([]);
  pass(300_000);
  expect(await write()).toEqual({ kind: "done" });
  await reports.saveStatuses(ofMerge, [{ ...failed, description: "ConfigMap b: refused" }]);
  await write();
  expect(told()).toEqual([
    expect.stringMatching(/@ann the rollout of `eeeeeee` failed in `shop\/prod`: `ConfigMap a: refused`/),
  ]);
  expect((await reports.find(key))?.failureTold).toBe(true);
});

test("a rollout that recovers in time is no news, and what fails later is not the merge's doing", async () => {
  const { write, told, reports, pass } = await setUpFailing();
  await write();
  await reports.saveStatuses(ofMerge, [{ ...failed, state: "success", description: "deployed: 1 changed" }]);
  expect(await write()).toEqual({ kind: "done" });
  await reports.saveStatuses(ofMerge, [failed]);
  pass(3_600_000);
  expect(await write()).toEqual({ kind: "done" });
  expect(told()).toEqual([]);
});

test.each([
  ["is told", { attempted: mergeCommit, ready: ["False", "BuildFailed"] }, 1],
  ["is not told if a newer commit is tried by now", { attempted: headCommit, ready: ["False", "BuildFailed"] }, 0],
  ["is not told if it is ready by now", { attempted: mergeCommit, ready: ["True", "ReconciliationSucceeded"] }, 0],
] as const)("the author of a merge that Flux fails to apply %s", async (_, now, times) => {
  const shown = aPreview({ kind: "Kustomization", deployment: { namespace: "flux-system", name: "apps" } });
  const { write, told, reports, pass, flux } = await setUpFailing({ previews: [shown] });
  const context = "towline/kustomization/flux-system/apps";
  await reports.saveStatuses(ofMerge, [{ ...failed, context, description: "kustomize build failed" }]);
  flux.set(aKustomization("apps", now));
  await write();
  pass(300_000);
  await write();
  expect(told()).toHaveLength(times);
  const words = "the rollout of `eeeeeee` failed in `Kustomization flux-system/apps`: `kustomize build failed`";
  for (const body of told()) expect(body).toContain(words);
});

test("retries do not start the time anew", async () => {
  const { write, told, reports, pass } = await setUpFailing();
  await write();
  pass(200_000);
  await reports.saveStatuses(ofMerge, [{ ...failed, state: "pending", description: "being deployed" }]);
  await write();
  await reports.saveStatuses(ofMerge, [failed]);
  pass(90_000);
  expect(await write()).toMatchObject({ kind: "later", afterMs: 10_000 });
  pass(10_000);
  await write();
  expect(told()).toHaveLength(1);
});

test("a job that died after it told the author does not tell again", async () => {
  const { write, told, reports, pass } = await setUpFailing();
  await write();
  pass(300_000);
  await write();
  await reports.save({ ...(await reports.find(key))!, failureTold: undefined });
  await write();
  expect(told()).toHaveLength(1);
  expect((await reports.find(key))?.failureTold).toBe(true);
});

test.each<[string, Partial<Report>]>([
  ["the author is not known", { author: undefined }],
  ["the pull request did not affect the deployment", { previews: [] }],
])("nobody is told if %s", async (_, overrides) => {
  const { write, told, pass } = await setUpFailing(overrides);
  await write();
  pass(300_000);
  expect(await write()).toEqual({ kind: "done" });
  expect(told()).toEqual([]);
});

test.each([
  ["a newer commit", at("f".repeat(40), "False")],
  ["a change of the resource", at(mergeCommit, "True")],
])("nobody is told about a failure that ended with %s", async (_, deployment) => {
  const { write, told, pass, cluster } = await setUpFailing();
  await write();
  cluster.objects.set("shop/prod", deployment);
  pass(300_000);
  expect(await write()).toEqual({ kind: "done" });
  expect(told()).toEqual([]);
});

test("a comment is marked as outdated until the next preview", async () => {
  const { write, reports, bodies } = await setUp();
  await reports.setStale(key, { startedAt: aReport().startedAt, until: 9_000 });
  await write();
  expect(bodies()).toEqual([`${headCommit} done until 9000`]);
  await reports.save(aReport({ startedAt: 5_000 }));
  await write();
  expect(bodies()).toEqual([`${headCommit} done`]);
});

test("while a preview waits for its time, a moved base requests nothing, and the comment is written", async () => {
  const { write, reports, bodies, sources, queue } = await setUp();
  sources.refs["refs/heads/main"] = "c".repeat(40);
  const until = seenAt + 60_000;
  await reports.setStale(key, { startedAt: aReport().startedAt, until });
  expect(await write()).toEqual({ kind: "done" });
  expect(bodies()).toEqual([`${headCommit} done until ${until}`]);
  expect(queue.requests).toEqual([]);
  await reports.setStale(key, { startedAt: aReport().startedAt, until: seenAt });
  await write();
  expect(queue.requests).toEqual([{ kind: "preview", pullRequest: key, cause: "base" }]);
});

test("a comment and a check run are not written again only because of the time", async () => {
  const { write, reports, forge } = await setUp(
    {},
    "check",
    undefined,
    (report, { marker }) =>
      `${marker}\nfound\n\n<sub>compared · 2026-01-01 10:00:0${report.startedAt} UTC · took 2.${report.startedAt} s</sub>`,
  );
  await reports.save(aReport({ startedAt: 1 }));
  await write();
  const [comment] = forge.comments.get(text) ?? [];
  const { length } = forge.statuses;
  await reports.save(aReport({ startedAt: 2 }));
  await write();
  expect(forge.comments.get(text)).toEqual([comment]);
  expect(forge.statuses).toHaveLength(length);
});

test("the check run of a summary has the comment's text without its marker, and is written again with another text", async () => {
  const { write, forge, reports } = await setUp({}, "check");
  await write();
  expect(forge.statuses.map(({ status }) => [status.context, status.details?.text.trim()])).toEqual([
    ["towline/shop/prod", undefined],
    ["towline", `${headCommit} done`],
  ]);
  await write();
  expect(forge.statuses).toHaveLength(2);

  await reports.setStale(key, { startedAt: 1_000, until: 5 });
  await write();
  expect(forge.statuses.slice(2)).toMatchObject([{ status: { details: { text: `\n${headCommit} done until 5` } } }]);
});
