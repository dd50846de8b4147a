/**
 * Stores reports and written statuses in Redis, for some days. In addition to the reports, a hash per repository lists
 * the open pull requests with the commits they were previewed at, so that pushes and sweeps need not read whole
 * reports; two sets per forge list the pull requests whose reports it rejected, and those whose reports are still to be
 * published. In addition to the statuses, a set per repository lists the pushed commits that lack their final status, and another one the merged pull requests that
 * deployments which include it still have to deploy.
 */
import type { Redis } from "ioredis";
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { type CommitKey, commitText, type PullRequestKey, pullRequestText, type RepoId } from "../model.ts";
import { type OpenReport, toOpenReport } from "../model/open-report.ts";
import { followedForMs, isOpen, Report, RolloutRest } from "../model/report.ts";
import type { PublishMark, Reports } from "../ports.ts";
import { readReport, storeReport } from "../model/stored-report.ts";
import { createReadiness, withinDeadline } from "./connection.ts";
import { CommitKey as CommitKeySchema, PullRequestKey as PullRequestKeySchema } from "./key-schemas.ts";
import { digest, pullRequestId } from "./keys.ts";
import { evaluate, prepare } from "./scripts.ts";

export interface ReportsDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  /** How long a report is kept after it was last saved. */
  readonly keepMs?: number | undefined;
}

/** The entry of a pull request that was open when its report was saved. Entries of earlier versions lack the last three fields. */
const OpenEntry = z.object({
  pullRequest: PullRequestKeySchema,
  baseBranch: z.string(),
  head: z.string(),
  state: z.enum(["working", "done"]),
  mendable: z.boolean().optional(),
  startedAt: z.number(),
  keptUntil: z.number(),
  base: z.string().optional(),
  affects: z.boolean().optional(),
  shows: z.array(z.string()).readonly().optional(),
});

const Status = z.object({
  context: z.string(),
  state: z.enum(["pending", "success", "failure", "canceled"]),
  description: z.string(),
  url: z.string().optional(),
  proposed: z.boolean().optional(),
  neutral: z.boolean().optional(),
  shown: z.string().optional(),
});

const Stale = z.object({
  startedAt: z.number(),
  until: z.number().optional(),
  reported: z.boolean().optional(),
  waiting: Report.shape.waiting,
});

const keepRemakesMs = 3_600_000;
/** More than an hour's budget. */
const mostRemakes = 50;
const deadlineMs = 2_000;
const dayMs = 24 * 3_600_000;
const keepStatusesMs = 14 * dayMs;
/** As long as a forge may refuse the preview that ends it. */
const keepStaleMs = keepStatusesMs;
/** Redis keeps the value in memory and is blocked while it sends it. */
const mostBytes = 1_000_000;

/** KEYS: a sorted set. ARGV: a member, the time, how long to keep the set. Returns the time, or a later one if it is taken. */
const mark = prepare(`
local last = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
local at = math.max(tonumber(ARGV[2]), last + 1)
redis.call('ZADD', KEYS[1], string.format('%d', at), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return at
`);
/** KEYS: a sorted set. ARGV: a member, its time. Removes it unless it has another time. */
const unmark = prepare(`
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0) == tonumber(ARGV[2]) then redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
`);

export function createReports({ connection, prefix, keepMs = 30 * dayMs }: ReportsDeps): Reports {
  const ready = createReadiness(connection);

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, deadlineMs, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  const reportKey = (key: PullRequestKey) => `${prefix}:pull-request:${digest(pullRequestId(key))}`;
  const wholeKey = (key: PullRequestKey) => `${prefix}:whole-pull-request:${digest(pullRequestId(key))}`;
  const openKey = (repo: RepoId) => `${prefix}:pull-requests:${digest(repo)}`;
  const statusesKey = ({ forge, repoName, commit }: CommitKey) =>
    `${prefix}:commit-statuses:${digest(`${forge}:${repoName.toLowerCase()}@${commit}`)}`;

  const rolloutRestKey = (commit: CommitKey) => `${prefix}:rollout-rest:${digest(commitText(commit).toLowerCase())}`;
  const rerunsKey = (commit: CommitKey) => `${prefix}:reruns:${digest(commitText(commit).toLowerCase())}`;
  const staleKey = (key: PullRequestKey) => `${prefix}:stale:${digest(pullRequestId(key))}`;
  const remakesKey = (key: PullRequestKey) => `${prefix}:remakes:${digest(pullRequestId(key))}`;
  const mergesKey = (commit: CommitKey) => `${prefix}:merges:${digest(commitText(commit).toLowerCase())}`;
  const groupsKey = (commit: CommitKey) => `${prefix}:merge-groups:${digest(commitText(commit).toLowerCase())}`;
  const refusedKey = (forge: string) => `${prefix}:refused:${forge}`;
  const unpublishedKey = (forge: string) => `${prefix}:unpublished:${forge}`;
  const rollingOutKey = (repo: RepoId) => `${prefix}:rolling-out:${digest(repo)}`;
  const unsettledKey = (repo: RepoId) => `${prefix}:unsettled:${digest(repo)}`;

  async function open(repo: RepoId): Promise<OpenReport[]> {
    const entries = await inTime("list the open pull requests", async () => {
      const found = Object.entries(await connection.hgetall(openKey(repo)));
      const parsed = found.map(([id, json]) => ({ id, entry: parse(OpenEntry, json) }));
      const over = parsed.filter(({ entry }) => entry === undefined || entry.keptUntil < Date.now());
      if (over.length > 0) await connection.hdel(openKey(repo), ...over.map(({ id }) => id));
      return parsed.filter((one) => !over.includes(one));
    });
    return entries.flatMap(({ entry }) => entry ?? []);
  }

  async function find(key: PullRequestKey): Promise<Report | undefined> {
    const keys = [reportKey(key), wholeKey(key)];
    const [text, whole] = await inTime("return the report", async () => connection.mget(keys));
    return typeof text === "string" ? readReport({ text, whole: whole ?? undefined }) : undefined;
  }

  return {
    open,
    find,
    async proposing(repo, head) {
      const keys = (await open(repo)).filter((one) => one.head === head).map(({ pullRequest }) => pullRequest);
      const found = await Promise.all(keys.map(find));
      return found.filter((report) => report !== undefined).filter((report) => report.head === head);
    },
    async openInto(repo, branch) {
      const all = await open(repo);
      return all
        .filter(({ baseBranch }) => branch === undefined || baseBranch === branch)
        .map(({ pullRequest }) => pullRequest);
    },
    async save(report) {
      const { pullRequest, repo } = report;
      const { text, whole } = storeReport(report);
      for (const json of [text, whole ?? ""]) refuseLarge(json, `the report of ${pullRequestText(pullRequest)}`);
      const writing = connection.multi().set(reportKey(pullRequest), text, "PX", keepMs);
      if (whole === undefined) writing.del(wholeKey(pullRequest));
      else writing.set(wholeKey(pullRequest), whole, "PX", keepMs);
      if (repo !== undefined && isOpen(report)) {
        const keptUntil = Date.now() + keepMs;
        const entry: z.infer<typeof OpenEntry> = { ...toOpenReport(report), keptUntil };
        writing.hset(openKey(repo), pullRequestId(pullRequest), JSON.stringify(entry)).pexpire(openKey(repo), keepMs);
      } else if (repo !== undefined) {
        writing.hdel(openKey(repo), pullRequestId(pullRequest));
      }
      if (report.mergeCommit !== undefined) {
        const merge = mergesKey({
          forge: pullRequest.forge,
          repoName: pullRequest.repoName,
          commit: report.mergeCommit,
        });
        writing.hset(merge, pullRequestId(pullRequest), JSON.stringify(pullRequest)).pexpire(merge, keepStatusesMs);
      }
      await inTime("store the report", async () => allOf(await writing.exec()));
    },
    async setStale(key, stale) {
      await inTime("store that a report is outdated", async () =>
        stale === undefined
          ? connection.del(staleKey(key))
          : connection.set(staleKey(key), JSON.stringify(stale), "PX", keepStaleMs),
      );
    },
    async stale(key) {
      return parse(Stale, await inTime("find whether a report is outdated", async () => connection.get(staleKey(key))));
    },
    async addRemake(key, at) {
      const list = remakesKey(key);
      const writing = connection.multi().rpush(list, at).ltrim(list, -mostRemakes, -1).pexpire(list, keepRemakesMs);
      await inTime("record a preview", async () => allOf(await writing.exec()));
    },
    async remakes(key) {
      const times = await inTime("count the previews", async () => connection.lrange(remakesKey(key), 0, -1));
      return times.flatMap((at) => parse(z.number(), at) ?? []).toSorted((one, other) => one - other);
    },
    async mergedAs(commit) {
      const keys = await inTime("find the merged pull requests", async () => connection.hvals(mergesKey(commit)));
      const found = await Promise.all(keys.flatMap((json) => parse(PullRequestKeySchema, json) ?? []).map(find));
      return found.filter((report) => report !== undefined).filter((report) => isMergedAs(report, commit.commit));
    },
    async setRollingOut({ forge, repoName, number }, repo, mergedAt) {
      const key = rollingOutKey(repo);
      const member = JSON.stringify({ forge, repoName, number });
      // From the merge on, however often it is recorded: what is not deployed by then is not waited for without end.
      const writing =
        mergedAt === undefined
          ? connection.multi().zrem(key, member)
          : connection.multi().zadd(key, mergedAt, member).pexpire(key, followedForMs);
      await inTime("store the rollout", async () => allOf(await writing.exec()));
    },
    async rollingOut(repo) {
      const found = await inTime("list the rollouts", async () => {
        await connection.zremrangebyscore(rollingOutKey(repo), "-inf", String(Date.now() - followedForMs));
        return connection.zrange(rollingOutKey(repo), 0, "-1");
      });
      return found.flatMap((json) => parse(PullRequestKeySchema, json) ?? []);
    },
    async statuses(commit) {
      const lines = await inTime("return the statuses", async () => connection.hvals(statusesKey(commit)));
      return lines.flatMap((json) => parse(Status, json) ?? []);
    },
    async saveStatuses(commit, statuses) {
      const lines = statuses.map((status) => [status.context, JSON.stringify(status)] as const);
      refuseLarge(JSON.stringify(lines), `the list of statuses of ${commit.repoName}@${commit.commit}`);
      const key = statusesKey(commit);
      const writing = connection.multi().hset(key, Object.fromEntries(lines)).pexpire(key, keepStatusesMs);
      await inTime("store the statuses", async () => allOf(await writing.exec()));
    },
    async setRolloutRest(commit, rest) {
      const key = rolloutRestKey(commit);
      await inTime("store the rollout", async () =>
        rest === undefined ? connection.del(key) : connection.set(key, JSON.stringify(rest), "PX", keepStatusesMs),
      );
    },
    async rolloutRest(commit) {
      return parse(RolloutRest, await inTime("return the rollout", async () => connection.get(rolloutRestKey(commit))));
    },
    async addRerun(commit) {
      const key = rerunsKey(commit);
      const writing = connection.multi().incr(key).pexpire(key, keepStatusesMs);
      await inTime("record a rerun", async () => allOf(await writing.exec()));
    },
    async reruns(commit) {
      return Number(await inTime("count the reruns", async () => connection.get(rerunsKey(commit)))) || 0;
    },
    async groupStatuses(commit) {
      const found = await inTime("return the status of a group", async () => connection.hgetall(groupsKey(commit)));
      const known = Object.entries(found).map(([branch, json]) => [branch, parse(Status, json)] as const);
      return new Map(known.flatMap(([branch, status]) => (status ? [[branch, status]] : [])));
    },
    async saveGroupStatus(group, status) {
      const key = groupsKey(group);
      const writing = connection.multi().hset(key, group.branch, JSON.stringify(status)).pexpire(key, keepStatusesMs);
      await inTime("store the status of a group", async () => allOf(await writing.exec()));
    },
    async setUnsettled({ forge, repoName, commit }, repo, unsettled) {
      const member = JSON.stringify({ forge, repoName, commit });
      await inTime("store the commit", async () =>
        unsettled
          ? connection.zadd(unsettledKey(repo), Date.now(), member)
          : connection.zrem(unsettledKey(repo), member),
      );
    },
    async unsettled(repo) {
      const found = await inTime("list the unsettled commits", async () => {
        await connection.zremrangebyscore(unsettledKey(repo), "-inf", String(Date.now() - keepStatusesMs));
        return connection.zrange(unsettledKey(repo), 0, "-1");
      });
      return found.flatMap((json) => parse(CommitKeySchema, json) ?? []);
    },
    async setRefused(key, refused) {
      const { forge, repoName, number } = key;
      const member = JSON.stringify({ forge, repoName, number });
      await inTime("store the rejected report", async () =>
        refused
          ? connection.zadd(refusedKey(forge), "NX", Date.now(), member) // not forever: the cause may never be fixed
          : connection.zrem(refusedKey(forge), member),
      );
    },
    async refused(forge) {
      const found = await inTime("list the rejected reports", async () => {
        await connection.zremrangebyscore(refusedKey(forge), "-inf", String(Date.now() - keepStatusesMs));
        return connection.zrange(refusedKey(forge), 0, "-1");
      });
      return found.flatMap((json) => parse(PullRequestKeySchema, json) ?? []);
    },
    async setUnpublished({ forge, repoName, number }) {
      const member = JSON.stringify({ forge, repoName, number });
      const at = await inTime("record that a report is to be published", async () =>
        evaluate(connection, mark, [unpublishedKey(forge)], [member, Date.now(), keepMs]),
      );
      return at as PublishMark;
    },
    async setPublished({ forge, repoName, number }, at) {
      const member = JSON.stringify({ forge, repoName, number });
      await inTime("record that a report is published", async () =>
        evaluate(connection, unmark, [unpublishedKey(forge)], [member, at]),
      );
    },
    async unpublished(forge, forMs) {
      const found = await inTime("list the reports to be published", async () =>
        connection.zrangebyscore(unpublishedKey(forge), "-inf", String(Date.now() - forMs)),
      );
      return found.flatMap((json) => parse(PullRequestKeySchema, json) ?? []);
    },
  };
}

function isMergedAs({ state, mergeCommit }: Report, commit: string): boolean {
  return state === "merged" && mergeCommit === commit;
}

/** Returns `undefined` if the value is missing or comes from another version or origin. */
function parse<S extends z.ZodType>(schema: S, json: string | null): z.infer<S> | undefined {
  return json === null ? undefined : schema.safeParse(parseJson(json)).data;
}

/** Throws if any command failed: Redis executes the other commands of a transaction nevertheless. */
function allOf(answers: readonly (readonly [Error | null, unknown])[] | null): void {
  const failed = answers?.find(([error]) => error)?.[0];
  if (failed) throw failed;
}

function refuseLarge(json: string, what: string): void {
  const bytes = Buffer.byteLength(json);
  if (bytes > mostBytes) throw new Error(`${what} is too large to store: ${bytes} bytes, at most ${mostBytes}`);
}
