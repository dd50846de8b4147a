import { expect, test, vi } from "vitest";
import { createReports } from "../../../src/redis/reports.ts";
import { QueueUnavailableError } from "../../../src/errors.ts";
import type { CommitKey, CommitStatus, RepoId } from "../../../src/model.ts";
import type { Report } from "../../../src/model/report.ts";
import { aPreview, aReport as anyReport } from "../../support/fake-reports.ts";
import { aPullRequestKey } from "../../support/jobs.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";
import { patience } from "../../support/patience.ts";

const repo = "git.example.com/org/shop" as RepoId;
const aReport = (more: Partial<Report> = {}) => anyReport({ repo, ...more });
const commit: CommitKey = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };
const pending: CommitStatus = { context: "towline/apps/shop", state: "pending", description: "previewing" };

async function useReports(options: { keepMs?: number } = {}) {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const another = () => createReports({ connection: redis.producer(), prefix, ...options });
  return { redis, prefix, another, reports: another(), client: () => redis.client() };
}

test("a report is returned as it was saved, also by another replica", async () => {
  const { reports, another } = await useReports();
  await reports.save(aReport({ obstacle: { kind: "conflict", paths: ["a.yaml"] }, earlierHeads: ["3".repeat(40)] }));

  const found = await another().find(aPullRequestKey());

  expect(found).toEqual(aReport({ obstacle: { kind: "conflict", paths: ["a.yaml"] }, earlierHeads: ["3".repeat(40)] }));
  expect(await reports.find(aPullRequestKey(8))).toBeUndefined();
});

test("a pull request is the same however its repository is spelled", async () => {
  const { reports } = await useReports();
  await reports.save(aReport({ pullRequest: aPullRequestKey(7, "Org/Shop") }));
  await reports.save(aReport({ head: "4".repeat(40) }));

  expect(await reports.find(aPullRequestKey(7, "ORG/shop"))).toMatchObject({ head: "4".repeat(40) });
  expect(await reports.openInto(repo, "main")).toEqual([aPullRequestKey()]);
});

test("all open pull requests that propose a commit are found", async () => {
  const { reports, another } = await useReports();
  const head = "4".repeat(40);
  await reports.save(aReport({ pullRequest: aPullRequestKey(1), head }));
  await reports.save(aReport({ pullRequest: aPullRequestKey(2), head, baseBranch: "release", state: "working" }));
  await reports.save(aReport({ pullRequest: aPullRequestKey(3), head, state: "closed" }));
  await reports.save(aReport({ pullRequest: aPullRequestKey(4) }));

  const found = await another().proposing(repo, head);

  expect(found.map(({ pullRequest }) => pullRequest.number).sort()).toEqual([1, 2]);
  await reports.save(aReport({ pullRequest: aPullRequestKey(1) }));
  expect(await reports.proposing(repo, head)).toHaveLength(1);
});

test("open pull requests are found by their base branch until they are closed or retargeted", async () => {
  const { reports, another } = await useReports();
  for (const number of [1, 2, 3, 4]) await reports.save(aReport({ pullRequest: aPullRequestKey(number) }));
  await reports.save(aReport({ pullRequest: aPullRequestKey(5), repo: "git.example.com/org/other" as RepoId }));

  const replica = another();
  await replica.save(aReport({ pullRequest: aPullRequestKey(1), state: "closed" }));
  await replica.save(aReport({ pullRequest: aPullRequestKey(2), state: "merged" }));
  await replica.save(aReport({ pullRequest: aPullRequestKey(3), state: "working", baseBranch: "release" }));

  expect(await reports.openInto(repo, "main")).toEqual([aPullRequestKey(4)]);
  expect(await reports.openInto(repo, "release")).toEqual([aPullRequestKey(3)]);
  expect(await reports.open(repo)).toHaveLength(2);
  expect(await reports.find(aPullRequestKey(1))).toMatchObject({ state: "closed" });
});

test("two replicas that save concurrently lose none of each other's reports", async () => {
  const { reports, another } = await useReports();
  const replicas = [reports, another()];
  await Promise.all(
    Array.from({ length: 40 }, async (_, i) => replicas[i % 2]?.save(aReport({ pullRequest: aPullRequestKey(i + 1) }))),
  );

  expect(await reports.openInto(repo, "main")).toHaveLength(40);
});

test("reports expire, and so does the list of open pull requests", async () => {
  const { reports, client: connect, prefix } = await useReports();
  const client = connect();
  await reports.save(aReport());
  await reports.saveStatuses(commit, [pending]);
  const days = async (pattern: string) => {
    const [key = ""] = await client.keys(`${prefix}:${pattern}:*`);
    return Math.round((await client.pttl(key)) / (24 * 3_600_000));
  };
  expect(await Promise.all(["pull-request", "pull-requests", "commit-statuses"].map(days))).toEqual([30, 30, 14]);

  const { reports: hasty } = await useReports({ keepMs: 100 });
  await hasty.save(aReport());
  await vi.waitFor(async () => {
    expect(await hasty.find(aPullRequestKey())).toBeUndefined();
    // Saving another one keeps the list alive.
    await hasty.save(aReport({ pullRequest: aPullRequestKey(8) }));
    expect(await hasty.openInto(repo, "main")).toEqual([aPullRequestKey(8)]);
  }, patience);
});

test("merged pull requests are found by the commit that contains them, and all of them if there are several", async () => {
  const { reports, another, client, prefix } = await useReports();
  const merged = (number: number, more: Partial<Report> = {}) =>
    aReport({ pullRequest: aPullRequestKey(number), state: "merged", mergeCommit: commit.commit, ...more });
  await reports.save(merged(1));
  await reports.save(merged(2));
  await reports.save(merged(3, { mergeCommit: "d".repeat(40) }));
  const numbers = async () =>
    (await another().mergedAs(commit)).map(({ pullRequest }) => pullRequest.number).toSorted();
  expect(await numbers()).toEqual([1, 2]);
  await reports.save(merged(2, { state: "done", mergeCommit: undefined })); // reopened
  expect(await numbers()).toEqual([1]);
  const redis = client();
  for (const key of await redis.keys(`${prefix}:merges:*`)) await redis.hset(key, "foreign", "{");
  expect(await numbers()).toEqual([1]);
  expect(await reports.mergedAs({ ...commit, commit: "e".repeat(40) })).toEqual([]);
});

test("a report stays marked as outdated", async () => {
  const { reports, another } = await useReports();
  expect(await reports.stale(aPullRequestKey())).toBeUndefined();
  await reports.setStale(aPullRequestKey(), { startedAt: 1, until: 2 });
  expect(await another().stale(aPullRequestKey(7, "ORG/shop"))).toEqual({ startedAt: 1, until: 2 });
  const waiting = { head: "2".repeat(40), baseBranch: "main" };
  await reports.setStale(aPullRequestKey(), { startedAt: 1, waiting });
  expect(await another().stale(aPullRequestKey())).toEqual({ startedAt: 1, waiting });
  await another().setStale(aPullRequestKey(), undefined);
  expect(await reports.stale(aPullRequestKey())).toBeUndefined();
});

test("the times of previews are counted by all replicas, the last ones for an hour, and foreign entries are ignored", async () => {
  const { reports, another, client, prefix } = await useReports();
  expect(await reports.remakes(aPullRequestKey())).toEqual([]);
  await reports.addRemake(aPullRequestKey(), 2);
  await Promise.all([reports.addRemake(aPullRequestKey(), 3), another().addRemake(aPullRequestKey(7, "ORG/shop"), 1)]);
  expect(await another().remakes(aPullRequestKey())).toEqual([1, 2, 3]);
  expect(await reports.remakes(aPullRequestKey(8))).toEqual([]);
  const [list = ""] = await client().keys(`${prefix}:remakes:*`);
  expect(await client().pttl(list)).toBeLessThanOrEqual(3_600_000);
  await client().rpush(list, "foreign");
  expect(await reports.remakes(aPullRequestKey())).toEqual([1, 2, 3]);
  for (let at = 10; at < 70; at++) await reports.addRemake(aPullRequestKey(), at);
  expect(await reports.remakes(aPullRequestKey())).toEqual(Array.from({ length: 50 }, (_, n) => 20 + n));
});

test("statuses of a commit are stored side by side, whichever replica saves them", async () => {
  const { reports, another } = await useReports();
  await Promise.all([
    reports.saveStatuses(commit, [pending]),
    another().saveStatuses(commit, [{ ...pending, context: "__proto__" }]),
  ]);

  const contexts = (await reports.statuses(commit)).map(({ context }) => context);
  expect(contexts.toSorted()).toEqual(["__proto__", pending.context].toSorted());
});

test("what failed or waits without a status is stored by commit until nothing does", async () => {
  const { reports, another } = await useReports();
  const rest = { lines: [{ deployment: "shop/a", state: "failure" as const, text: "refused" }], more: 3 };
  expect(await reports.rolloutRest(commit)).toBeUndefined();
  await reports.setRolloutRest(commit, rest);
  expect(await another().rolloutRest(commit)).toEqual(rest);
  await another().setRolloutRest(commit, undefined);
  expect(await reports.rolloutRest(commit)).toBeUndefined();
});

test("reruns of a commit are counted, whichever replica is asked", async () => {
  const { reports, another } = await useReports();
  expect(await reports.reruns(commit)).toBe(0);
  await Promise.all([reports.addRerun(commit), another().addRerun({ ...commit, repoName: "ORG/shop" })]);
  expect(await another().reruns(commit)).toBe(2);
  expect(await reports.reruns({ ...commit, commit: "e".repeat(40) })).toBe(0);
});

test("statuses are returned as they were last saved", async () => {
  const { reports, another } = await useReports();
  expect(await reports.statuses(commit)).toEqual([]);
  await reports.saveStatuses(commit, [pending]);
  const later = { ...pending, state: "success", url: "https://git.example.com/", neutral: true, shown: "a1" } as const;
  await another().saveStatuses(commit, [later]);

  expect(await reports.statuses(commit)).toEqual([later]);
});

test("merge queue groups at one commit each have a status of their own, by branch", async () => {
  const { reports, another, client, prefix } = await useReports();
  const base = "b".repeat(40);
  const group = { ...commit, branch: `gh-readonly-queue/main/pr-7-${base}`, base };
  const other = { ...group, branch: `gh-readonly-queue/next/pr-7-${base}` };
  expect(await reports.groupStatuses(commit)).toEqual(new Map());
  await reports.saveGroupStatus(group, pending);
  await another().saveGroupStatus({ ...other, repoName: "Org/Shop" }, { ...pending, state: "success" });

  const found = new Map([
    [group.branch, pending],
    [other.branch, { ...pending, state: "success" }],
  ]);
  expect(await another().groupStatuses(commit)).toEqual(found);
  const [key = ""] = await client().keys(`${prefix}:merge-groups:*`);
  await client().hset(key, "somebody else's", "{not json");
  expect(await reports.groupStatuses(commit)).toEqual(found);
  expect(await client().pttl(key)).toBeGreaterThan(13 * 24 * 3_600_000);
});

test("foreign data under the same keys is ignored", async () => {
  const { reports, client: connect, prefix } = await useReports();
  const client = connect();
  await reports.save(aReport());
  await reports.saveStatuses(commit, [pending]);
  const [report = ""] = await client.keys(`${prefix}:pull-request:*`);
  const [statuses = ""] = await client.keys(`${prefix}:commit-statuses:*`);
  const [open = ""] = await client.keys(`${prefix}:pull-requests:*`);

  for (const bad of ["{not json", "null", "[]", JSON.stringify({ ...aReport(), v: 2 }), JSON.stringify({ v: 1 })]) {
    await client.set(report, bad);
    await client.hset(statuses, pending.context, JSON.stringify({ bad }));
    await client.hset(open, "x", bad);
    expect(await reports.find(aPullRequestKey()), bad).toBeUndefined();
    expect(await reports.statuses(commit)).toEqual([]);
    expect(await reports.openInto(repo, "main")).toEqual([aPullRequestKey()]);
  }
});

test("commits are listed as unsettled until they are settled, and foreign entries are ignored", async () => {
  const { reports, another, client, prefix } = await useReports();
  const other = { ...commit, commit: "e".repeat(40) };
  await reports.setUnsettled(commit, repo, true);
  await reports.setUnsettled(commit, repo, true);
  await reports.setUnsettled(other, repo, true);
  const [key = ""] = await client().keys(`${prefix}:unsettled:*`);
  await client().zadd(key, Date.now(), "{not json", Date.now(), "{}");
  await client().zadd(key, Date.now() - 30 * 24 * 3_600_000, JSON.stringify({ ...commit, commit: "f".repeat(40) }));

  expect(new Set(await another().unsettled(repo))).toEqual(new Set([commit, other]));
  await reports.setUnsettled(commit, repo, false);
  expect(await reports.unsettled(repo)).toEqual([other]);
});

test("rollouts of a library are listed until they are over, on every replica, and foreign entries are ignored", async () => {
  const { reports, another, prefix, client } = await useReports();
  const now = Date.now();
  await reports.setRollingOut(aPullRequestKey(7), repo, now - 1);
  await another().setRollingOut(aPullRequestKey(8), repo, now);
  const [key] = await client().keys(`${prefix}:rolling-out:*`);
  await client().zadd(key!, Date.now(), "not json");
  expect(await reports.rollingOut(repo)).toEqual([aPullRequestKey(7), aPullRequestKey(8)]);
  // Nothing is waited for without end.
  await reports.setRollingOut(aPullRequestKey(7), repo, now - 15 * 24 * 3_600_000);
  expect(await reports.rollingOut(repo)).toEqual([aPullRequestKey(7), aPullRequestKey(8)].slice(1));
  await reports.setRollingOut(aPullRequestKey(8), repo, undefined);
  expect(await reports.rollingOut(repo)).toEqual([]);
});

test("refused pull requests are listed by forge until they are reported, and foreign entries are ignored", async () => {
  const { reports, another, client, prefix } = await useReports();
  const [one, other] = [aPullRequestKey(), { ...aPullRequestKey(), number: 8 }];
  await reports.setRefused(one, true);
  await reports.setRefused(one, true);
  await reports.setRefused(other, true);
  await reports.setRefused({ ...one, forge: "another" }, true);
  const [key = ""] = await client().keys(`${prefix}:refused:${one.forge}`);
  await client().zadd(key, Date.now(), "{not json", Date.now(), "{}");
  await client().zadd(key, Date.now() - 30 * 24 * 3_600_000, JSON.stringify({ ...one, number: 9 }));

  expect(await another().refused(one.forge)).toEqual(expect.arrayContaining([one, other]));
  expect(await reports.refused(one.forge)).toHaveLength(2);
  await reports.setRefused(one, false);
  expect(await reports.refused(one.forge)).toEqual([other]);
});

test("a report is to be published until that is recorded about the last mark, on every replica", async () => {
  const { reports, another, prefix, client } = await useReports();
  const [one, other] = [aPullRequestKey(), aPullRequestKey(8)];
  const owed = async (forMs = 0) => (await another().unpublished(one.forge, forMs)).map(({ number }) => number);
  const marks = [await reports.setUnpublished(one), await another().setUnpublished(one)] as const;
  await reports.setUnpublished(other);
  await reports.setUnpublished({ ...one, forge: "another" });
  await client().zadd(`${prefix}:unpublished:${one.forge}`, 1, "not json");
  expect(await owed(-1_000)).toEqual([one.number, other.number]);
  expect(await owed(60_000)).toEqual([]);

  await reports.setPublished(one, marks[0]);
  expect(await owed(-1_000)).toEqual([one.number, other.number]);
  await another().setPublished(one, marks[1]);
  await reports.setPublished(one, marks[1]);
  expect(await owed(-1_000)).toEqual([other.number]);
});

test("an entry that is too large for Redis is refused, and the previous one stays", async () => {
  const { reports } = await useReports();
  await reports.save(aReport());

  await expect(reports.save(aReport({ obstacle: { kind: "failed", message: "é".repeat(500_000) } }))).rejects.toThrow(
    "gitea:org/shop#7 is too large",
  );
  await expect(
    reports.saveStatuses(commit, [{ ...pending, description: "x".repeat(1_000_000) }]),
  ).rejects.not.toBeInstanceOf(QueueUnavailableError);
  expect(await reports.find(aPullRequestKey())).toEqual(aReport());
});

test("a large report is returned whole, and shortened after a server of the previous version saved it", async () => {
  const { reports, another, client: connect, prefix } = await useReports();
  const client = connect();
  const diff = "+x\n".repeat(100_000);
  const ref = (namespace: string) => ({ kind: "ConfigMap", name: "settings", namespace });
  const objects = ["a", "b", "c"].map((name) => ({ ref: ref(name), action: "changed" as const, risks: [], diff }));
  const large = aReport({ previews: [aPreview({ objects })] });
  await reports.save(large);
  expect(await another().find(aPullRequestKey())).toEqual(large);

  const [key = ""] = await client.keys(`${prefix}:pull-request:*`);
  await client.set(key, JSON.stringify({ ...(JSON.parse((await client.get(key)) ?? "") as Report), state: "closed" }));
  const [preview] = (await reports.find(aPullRequestKey()))?.previews ?? [];
  expect(preview?.objects.map(({ linesLeftOut }) => linesLeftOut)).toEqual([100_000, 100_000, 100_000]);

  await reports.save(aReport());
  expect(await reports.find(aPullRequestKey())).toEqual(aReport());
  expect(await client.keys(`${prefix}:whole-pull-request:*`)).toEqual([]);
});

test("after Redis lost its data there are no reports, and new ones are accepted", async () => {
  const { reports, client } = await useReports();
  await reports.save(aReport());
  await reports.saveStatuses(commit, [pending]);
  await client().flushall();

  expect(await reports.find(aPullRequestKey())).toBeUndefined();
  expect(await reports.openInto(repo, "main")).toEqual([]);
  expect(await reports.statuses(commit)).toEqual([]);
  await reports.save(aReport());
  expect(await reports.openInto(repo, "main")).toEqual([aPullRequestKey()]);
});

test.each(["frozen", "stopped"] as const)(
  "with Redis %s, all calls are refused in time, and work afterwards",
  async (how) => {
    const { reports, redis } = await useReports();
    await reports.save(aReport());
    if (how === "frozen") redis.freeze();
    else await redis.stop();

    const calls = [
      reports.save(aReport()),
      reports.find(aPullRequestKey()),
      reports.openInto(repo, "main"),
      reports.statuses(commit),
      reports.saveStatuses(commit, [pending]),
      reports.addRerun(commit),
      reports.reruns(commit),
      reports.setUnsettled(commit, repo, true),
      reports.unsettled(repo),
      reports.setRefused(aPullRequestKey(), true),
      reports.setUnpublished(aPullRequestKey()),
      reports.unpublished("gitea", 0),
      reports.refused("gitea"),
    ];
    for (const { reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
      expect(reason).toBeInstanceOf(QueueUnavailableError);
    }

    if (how === "frozen") redis.thaw();
    else await redis.start();
    await vi.waitFor(async () => expect(await reports.find(aPullRequestKey())).toEqual(aReport()), patience);
  },
);
