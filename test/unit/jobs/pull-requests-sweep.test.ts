import { pino } from "pino";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type PullRequestsSweepDeps, startPullRequestsSweep } from "../../../jobs/sweeps/pull-requests-sweep.ts";
import { ForgeError } from "../../../src/errors.ts";
import { annotation, type CommandSummary, type Deployment, followsGit, type Request } from "../../../src/model.ts";
import { includedBy } from "../../../src/model/includes.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import type { Report } from "../../../src/model/report.ts";
import { aDeployment, aSpec, aSummary } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { aPreview, aReport, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const minute = 60_000;
const everyMs = 5 * minute;
const repo = repoId("https://git.example.com/org/shop")!;
const other = { deployment: { namespace: "shop", name: "other" } };

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** The state that replicas share. */
function fakeRedis() {
  const reports = fakeReports();
  const claims = new Map<string, number>();
  const requests: Request[] = [];
  const queue: PullRequestsSweepDeps["queue"] = {
    async enqueue(wanted) {
      requests.push(...wanted);
      return { queued: wanted.length };
    },
    async claim(what, forMs) {
      if ((claims.get(what) ?? 0) > Date.now()) return false;
      claims.set(what, Date.now() + forMs);
      return true;
    },
  };
  const save = async (number: number, more: Partial<Report> = {}) =>
    reports.save(aReport({ pullRequest: { forge: "gitea", repoName: "org/shop", number }, repo, ...more }));
  return { queue, requests, reports, save };
}

function useSweep({
  forge = fakeForge(),
  redis = fakeRedis(),
  deployments = [aDeployment()] as Deployment[],
  ...deps
}: Partial<Omit<PullRequestsSweepDeps, "deployments">> & {
  forge?: ReturnType<typeof fakeForge>;
  redis?: ReturnType<typeof fakeRedis>;
  deployments?: Deployment[];
} = {}) {
  const sweep = startPullRequestsSweep({
    deployments: {
      all: () => deployments,
      tracking: (of) => deployments.filter(followsGit).filter((one) => one.repo === of),
      including: (of) => deployments.filter((one) => includedBy(one).has(of)),
    },
    forges: new Map([[forge.id, forge]]),
    reports: redis.reports,
    queue: redis.queue,
    clock: { now: () => Date.now() },
    log: silentLog,
    ...deps,
  });
  onTestFinished(() => sweep.stop());
  const asked = () =>
    redis.requests.splice(0).map((request) => (request.kind === "preview" ? request.pullRequest.number : request.kind));
  return { sweep, forge, redis, asked };
}

test("a pull request without a webhook is found, and only until it has a report", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(1);
  await pass(minute);
  expect(redis.requests).toEqual([
    { kind: "preview", pullRequest: { forge: "gitea", repoName: "org/shop", number: 1 }, cause: "sweep" },
  ]);
  asked();
  await redis.save(1);

  await pass(3 * everyMs);
  expect(asked()).toEqual([]);

  forge.put(1, { head: "5".repeat(40) });
  await pass(everyMs);
  expect(asked()).toEqual([1]);

  forge.put(1, { head: aReport().head, baseBranch: "release" });
  await pass(everyMs);
  expect(asked()).toEqual([1]);
});

test.each([
  ["may be shown", "git.example.com/org/shop", [1]],
  ["must not be shown", "git.example.com/org/other", []],
])("those of a repository that a deployment includes are found if it %s there", async (_, previewIn, numbers) => {
  const annotations = { [annotation.includes]: "https://git.example.com/org/shop", [annotation.previewIn]: previewIn };
  const consumer = aDeployment({ repo: repoId("https://elsewhere.example.com/org/own")!, annotations });
  const { forge, asked } = useSweep({ deployments: [consumer] });
  forge.put(1);
  await pass(minute);
  expect(asked()).toEqual(numbers);
});

test("pull requests that were closed, merged or reopened without a webhook are found", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(1);
  forge.put(2, { state: "closed" });
  forge.put(3, { state: "merged" });
  forge.put(4);
  for (const number of [1, 2, 3]) await redis.save(number);
  await redis.save(4, { state: "closed" });

  await pass(minute);

  expect(asked()).toEqual([4, 2, 3]);
});

test("recently closed and merged pull requests are found without a report, and only once", async () => {
  const { forge, redis, asked } = useSweep();
  const now = Date.now();
  forge.put(1, { state: "closed", updatedAt: now - 2 * minute });
  forge.put(2, { state: "merged", updatedAt: now - minute });
  forge.put(3, { state: "merged", updatedAt: now - 25 * 60 * minute });
  await pass(minute);
  expect(redis.requests).toEqual(
    [2, 1].map((number) => ({
      kind: "preview",
      pullRequest: { forge: "gitea", repoName: "org/shop", number },
      cause: "sweep",
    })),
  );
  asked();

  // Their previews saved reports, although there was nothing to show.
  await redis.save(1, { state: "closed", repo: undefined, previews: [] });
  await redis.save(2, { state: "merged", repo: undefined, previews: [] });
  await pass(3 * everyMs);
  expect(asked()).toEqual([]);

  redis.reports.saved.clear();
  await pass(everyMs);
  expect(asked()).toEqual([2, 1]);
});

test("after Redis was emptied, a repository's closed pull requests are requested a few at a time", async () => {
  const { forge, redis, asked } = useSweep();
  for (let number = 1; number <= 50; number++) forge.put(number, { state: "merged" });
  await pass(minute);
  const first = asked();
  expect(first).toHaveLength(20);
  for (const number of first) await redis.save(Number(number), { state: "merged", repo: undefined, previews: [] });
  await pass(everyMs);
  const second = asked();
  expect(second).toHaveLength(20);
  expect(second.filter((number) => first.includes(number))).toEqual([]);
});

test("a pull request that was reopened and merged without a webhook is found although its report says that it was closed", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(1, { state: "merged" });
  await redis.save(1, { state: "closed" });
  await pass(minute);
  expect(asked()).toEqual([1]);
});

test("a sweep makes two requests, for open and for recently closed pull requests", async () => {
  const { forge, redis } = useSweep();
  for (let number = 1; number <= 40; number++) {
    const state = number % 2 === 0 ? "closed" : "merged";
    forge.put(number, { state });
    await redis.save(number, { state });
  }
  await pass(minute + 2 * everyMs);
  expect(forge.calls).toEqual(Array.from({ length: 3 }, () => ["openPullRequests", "closedPullRequests"]).flat());
});

test("a forge that fails to list the closed pull requests of one repository is queried for the next one", async () => {
  const forge = fakeForge();
  useSweep({
    forge: {
      ...forge,
      repoName: (of) => of.replace("https://git.example.com/", ""),
      closedPullRequests: () => Promise.reject(new ForgeError("unreachable", "not an answer")),
    },
    deployments: ["shop", "blog"].map((name) => aDeployment({ repo: repoId(`https://git.example.com/org/${name}`)! })),
  });
  await pass(minute);
  expect(forge.calls).toEqual(["openPullRequests", "openPullRequests"]);
});

test("open pull requests are found although the forge refuses to list closed ones", async () => {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const forge = fakeForge();
  forge.put(1);
  forge.put(2, { state: "closed" });
  const { closedPullRequests } = forge;
  let refuses = true;
  const { asked } = useSweep({
    forge: {
      ...forge,
      closedPullRequests: async (...of) => {
        if (refuses) throw new ForgeError("refused", "not today");
        return closedPullRequests(...of);
      },
    },
    log,
  });

  await pass(minute + everyMs);
  expect(asked()).toEqual([1, 1]);
  expect(lines.filter(({ level }) => level >= 40)).toHaveLength(1);

  refuses = false;
  await pass(everyMs);
  expect(asked()).toEqual([1, 2]);
});

test("a report whose job was lost is requested again, after a while", async () => {
  const { forge, redis, asked } = useSweep();
  const key = { forge: "gitea", repoName: "org/shop", number: 1 };
  forge.put(1);
  await redis.save(1);
  await redis.reports.setUnpublished(key);
  await pass(minute);
  expect(redis.requests).toEqual([]);
  await pass(everyMs + minute);
  expect(redis.requests).toEqual([{ kind: "report", pullRequest: key }]);
  asked();

  await redis.reports.setPublished(key, await redis.reports.setUnpublished(key));
  await pass(3 * everyMs);
  expect(asked()).toEqual([]);
});

test("a report that was both rejected and not published is requested once", async () => {
  const { forge, redis, asked } = useSweep();
  const key = { forge: "gitea", repoName: "org/shop", number: 1 };
  forge.put(1);
  await redis.save(1);
  await redis.reports.setUnpublished(key);
  await redis.reports.setRefused(key, true);
  await pass(minute);
  expect(asked()).toEqual(["report"]);
  await pass(everyMs + minute);
  expect(asked()).toEqual(["report"]);
});

test("old pull requests without a preview are ignored", async () => {
  const { forge, redis, asked } = useSweep();
  const dayAgo = Date.now() - 25 * 3_600_000;
  forge.put(1, { updatedAt: dayAgo });
  forge.put(2, { updatedAt: dayAgo, head: "5".repeat(40) });
  await redis.save(2);

  await pass(minute);

  expect(asked()).toEqual([2]);
});

test("a pull request that was reported before a deployment followed its repository is previewed", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(3);
  await redis.save(3, { repo: undefined });
  await pass(minute);
  expect(asked()).toEqual([3]);
  await redis.save(3);
  await pass(everyMs);
  expect(asked()).toEqual([]);
});

const aDeploy = (endTime: number, more: Partial<CommandSummary> = { changedObjects: 1 }) => ({
  lastDeployResult: aSummary({ endTime: new Date(endTime).toISOString(), ...more }),
});

test.each<[string, { branch?: string; tag?: string }, Partial<Report>, number[]]>([
  ["of its base branch is previewed if it shows the deployment", { branch: "main" }, {}, [1]],
  ["of its base branch is not if it shows others", { branch: "main" }, { previews: [aPreview(other)] }, []],
  ["of another branch is not", { branch: "release" }, {}, []],
  ["of a tag is not", { tag: "v1" }, {}, []],
  ["of the default branch is previewed if it shows the deployment", {}, {}, [1]],
  ["of the default branch is not if it shows none", {}, { previews: [] }, []],
])("a pull request whose preview is older than a deploy %s", async (_, ref, more, numbers) => {
  const source = { ...aSpec().source, ref };
  const deployment = aDeployment({ repo, spec: aSpec({ source }), status: aDeploy(Date.now() + 1_000) });
  const { forge, redis, asked } = useSweep({ deployments: [deployment] });
  forge.put(1);
  await redis.save(1, { startedAt: Date.now(), baseBranch: "main", ...more });
  await pass(minute);
  expect(asked()).toEqual(numbers);
});

test.each<[string, Partial<CommandSummary>]>([
  ["changed nothing", { document: { gitInfo: { commit: "c2" } } }],
  ["was a dry run", { changedObjects: 1, document: { commandInfo: { dryRun: true } } }],
])("a later deploy that %s is no reason for a preview, at no sweep", async (_, last) => {
  const deployment = aDeployment({ repo, status: aDeploy(Date.now() + 1_000, last) });
  const { forge, redis, asked } = useSweep({ deployments: [deployment] });
  forge.put(1);
  await redis.save(1, { startedAt: Date.now() });
  await pass(3 * everyMs);
  expect(asked()).toEqual([]);
});

test("a pull request of a library is previewed after a deploy of what includes it, and is shown there", async () => {
  const annotations = { [annotation.includes]: "https://git.example.com/org/shop" };
  const consumer = aDeployment({
    repo: repoId("https://git.example.com/org/own")!,
    annotations: { ...annotations, [annotation.previewIn]: "git.example.com/org/shop" },
    status: aDeploy(Date.now() + 1_000),
  });
  const hidden = { ...consumer, key: { namespace: "shop", name: "hidden" }, annotations };
  const { forge, redis, asked } = useSweep({ deployments: [consumer, hidden] });
  for (const number of [1, 2]) forge.put(number);
  await redis.save(1, { startedAt: Date.now() });
  await redis.save(2, { startedAt: Date.now(), previews: [aPreview({ deployment: hidden.key })] });
  await pass(minute);
  expect(asked()).toEqual([1]);
});

test("a new head without a webhook does not wait for the budget of the old one", async () => {
  const { forge, redis } = useSweep();
  const { startedAt } = aReport();
  for (const number of [1, 2]) {
    forge.put(number, { head: "5".repeat(40) });
    await redis.save(number);
  }
  await redis.reports.setStale({ forge: "gitea", repoName: "org/shop", number: 1 }, { startedAt, until: Date.now() });
  await pass(minute);
  expect(redis.requests).toMatchObject([
    { pullRequest: { number: 1 }, cause: "pull-request" },
    { pullRequest: { number: 2 }, cause: "sweep" },
  ]);
});

test("a preview that waited for its time, and was then refused or lost, is requested by the sweep until it is made", async () => {
  const { forge, redis, asked } = useSweep();
  const key = (number: number) => ({ forge: "gitea", repoName: "org/shop", number });
  for (const number of [1, 2, 3, 4]) {
    forge.put(number);
    await redis.save(number, { startedAt: 1_000 });
  }
  await redis.reports.setStale(key(1), { startedAt: 1_000, until: Date.now() - everyMs });
  await redis.reports.setRefused(key(1), true);
  await redis.reports.setStale(key(2), { startedAt: 1_000, until: Date.now() - everyMs });
  await redis.reports.setStale(key(3), { startedAt: 1_000, until: Date.now() }); // its job may be running
  await redis.reports.setStale(key(4), { startedAt: 999, until: 1 }); // it was made since
  await pass(minute);
  expect(redis.requests).toEqual(
    [1, 2].map((number) => ({ kind: "preview", pullRequest: key(number), cause: "sweep" })),
  );
  asked();
  await redis.reports.setStale(key(2), undefined);
  await pass(everyMs);
  expect(asked()).toEqual([1, 3]);
});

test("a deploy that nobody noticed waits for the budget", async () => {
  const deployment = aDeployment({ repo, status: aDeploy(Date.now() + 1_000) });
  const { forge, redis } = useSweep({ deployments: [deployment] });
  forge.put(1);
  await redis.save(1, { startedAt: 1_000 });
  await redis.reports.setStale(
    { forge: "gitea", repoName: "org/shop", number: 1 },
    { startedAt: 1_000, until: Date.now() },
  );
  await pass(minute);
  expect(redis.requests).toMatchObject([{ pullRequest: { number: 1 }, cause: "sweep" }]);
});

test("an unfinished preview is requested again after an hour", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(1);
  await redis.save(1, { state: "working", startedAt: Date.now() });

  await pass(minute);
  expect(asked()).toEqual([]);
  await pass(3_600_000 + everyMs);
  expect(asked()).toContain(1);
});

test("a preview that failed transiently is requested again after a while", async () => {
  const { forge, redis, asked } = useSweep();
  forge.put(1);
  forge.put(2);
  await redis.save(1, { mendable: true, startedAt: Date.now() });
  await redis.save(2, { mendable: false, startedAt: Date.now() });

  await pass(everyMs + minute);
  expect(asked()).toEqual([]);
  await pass(everyMs);
  expect(asked()).toEqual([1]);
});

test("only repositories in which a pull request can affect a deployment are checked, each once", async () => {
  const at = (path: string) => ({ source: { url: `https://git.example.com/org/${path}`, ref: {}, path: "" } });
  const { forge } = useSweep({
    deployments: [
      aDeployment(),
      aDeployment({ key: { namespace: "shop", name: "staging" } }),
      aDeployment({ spec: { source: { ...at("pinned").source, ref: { commit: "c".repeat(40) } } } }),
      aDeployment({ spec: { source: { ...at("tagged").source, ref: { tag: "v1" } } } }),
      aDeployment({ spec: at("silent"), annotations: { "towline.dev/preview": " False" } }),
      aDeployment({ spec: at("going"), deletionTimestamp: "2026-01-01T00:00:00Z" }),
      aDeployment({ spec: { source: { url: "https://elsewhere.example.com/org/shop", ref: {}, path: "" } } }),
    ],
  });

  await pass(minute);

  expect(forge.calls).toEqual(["openPullRequests", "closedPullRequests"]);
});

test("of two replicas only one checks a repository", async () => {
  const shared = { forge: fakeForge(), redis: fakeRedis() };
  useSweep(shared);
  await pass(2 * minute);
  useSweep(shared);
  shared.forge.put(1);
  await pass(3 * everyMs);

  expect(shared.forge.calls.filter((name) => name === "openPullRequests")).toHaveLength(4);
});

test.each(["unreachable", "rate-limited"] as const)(
  "a forge that is %s is asked once per interval and logged once, while other forges are checked",
  async (problem) => {
    const lines: { level: number; msg: string }[] = [];
    const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const elsewhere = fakeForge({ id: "elsewhere", host: "elsewhere.example.com" });
    const down = fakeForge();
    elsewhere.put(9);
    down.fail(problem, 10_000);
    const on = (host: string, name: string) =>
      aDeployment({ spec: { source: { url: `https://${host}/org/${name}`, ref: {}, path: "" } } });
    const { asked } = useSweep({
      forges: new Map([down, elsewhere].map((forge) => [forge.id, forge])),
      deployments: [on("git.example.com", "shop"), on("git.example.com", "other"), on("elsewhere.example.com", "shop")],
      log,
    });
    down.put(1);

    await pass(minute + 2 * everyMs);
    expect(down.calls).toHaveLength(3);
    expect(asked()).toEqual([9, 9, 9]);
    expect(lines.filter(({ level }) => level >= 40)).toHaveLength(1);

    down.fail();
    await pass(everyMs);
    expect(asked()).toContain(1);
    expect(lines.filter(({ msg }) => msg.includes("again"))).toHaveLength(1);
  },
);

test("a repository that the login may not see does not hide the others", async () => {
  const forge = fakeForge();
  forge.put(1);
  const hidden = aDeployment({ spec: { source: { url: "https://git.example.com/org/a", ref: {}, path: "" } } });
  const { openPullRequests } = forge;
  const { asked } = useSweep({
    forge: {
      ...forge,
      openPullRequests: async (name, signal) => {
        forge.fail(name === "org/a" ? "not-found" : undefined);
        return openPullRequests(name, signal);
      },
    },
    deployments: [hidden, aDeployment()],
  });

  await pass(minute);

  expect(asked()).toEqual([1]);
});

test("while Redis is unavailable nothing is found, and afterwards everything is", async () => {
  const redis = fakeRedis();
  const { claim } = redis.queue;
  let away = true;
  const { forge, asked } = useSweep({
    redis,
    queue: { ...redis.queue, claim: async (...of) => (away ? Promise.reject(new Error("away")) : claim(...of)) },
  });
  forge.put(1);
  await pass(minute);
  expect(asked()).toEqual([]);

  away = false;
  await pass(everyMs);
  expect(asked()).toEqual([1]);
});

test("a stopped sweep aborts its request and sends no more", async () => {
  const forge = fakeForge();
  const signals: AbortSignal[] = [];
  const { sweep, redis } = useSweep({
    forge: {
      ...forge,
      openPullRequests: async (_name, signal) => {
        signals.push(signal!);
        return new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason as Error)));
      },
    },
  });
  await pass(minute);

  await sweep.stop();
  await pass(3 * everyMs);

  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  expect(redis.requests).toEqual([]);
});

test("a report that a forge rejected is requested at each sweep until the forge accepts it", async () => {
  const { forge, redis, asked } = useSweep();
  const key = (number: number) => ({ forge: "gitea", repoName: "org/shop", number });
  const { head } = forge.put(1);
  await redis.save(1, { head });
  await redis.reports.setRefused(key(1), true);
  await redis.reports.setRefused(key(2), true);
  await redis.reports.setRefused({ ...key(3), repoName: "org/another" }, true);
  await redis.reports.setRefused({ ...key(4), forge: "another" }, true);
  await pass(minute);
  expect(redis.requests.splice(0)).toEqual([
    { kind: "report", pullRequest: key(1) },
    { kind: "preview", pullRequest: key(2), cause: "sweep" }, // nothing is known about this one
  ]);
  await redis.reports.setRefused(key(2), false);
  await pass(everyMs);
  expect(asked()).toEqual(["report"]);
  await redis.reports.setRefused(key(1), false);
  await pass(everyMs);
  expect(redis.requests).toEqual([]);
});

test("a deploy by a server whose clock is ahead does not request a pull request at each sweep", async () => {
  const source = { ...aSpec().source, ref: { branch: "main" } };
  const status = aDeploy(Date.now() + 24 * 60 * minute);
  const { forge, redis, asked } = useSweep({ deployments: [aDeployment({ repo, spec: aSpec({ source }), status })] });
  forge.put(1);
  await redis.save(1, { startedAt: Date.now(), baseBranch: "main" });
  await pass(minute);
  expect(asked()).toEqual([1]);
  await redis.save(1, { startedAt: Date.now(), baseBranch: "main" });
  await pass(4 * everyMs);
  expect(asked()).toEqual([]);
});
