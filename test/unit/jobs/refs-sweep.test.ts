import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { startSweep, type SweepDeps } from "../../../jobs/sweeps/sweep.ts";
import type { Deployment, DeploymentStatus, GitRef, ReconcileRequest } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import type { Report } from "../../../src/model/report.ts";
import { createRetries } from "../../../src/reconcile/retries.ts";
import { aDeployment, aSpec, aStatus } from "../../support/deployments.ts";
import { aReport, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const minute = 60_000;

beforeEach(() => void vi.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") }));
afterEach(() => void vi.useRealTimers());

interface Options {
  readonly repo?: string;
  readonly ref?: GitRef;
  readonly suspend?: boolean;
  readonly status?: Partial<DeploymentStatus>;
}

function following(name: string, { repo = "shop", ref = { branch: "main" }, suspend = false, status }: Options = {}) {
  const url = `https://git.example.com/org/${repo}`;
  return aDeployment({
    key: { namespace: "apps", name },
    repo: repoId(url)!,
    spec: aSpec({ source: { url, ref, path: "" }, suspend }),
    status: aStatus({ observedGeneration: 1, observedCommit: "c1", ...status }),
  });
}

async function openPullRequests(...all: readonly (Partial<Report> & { readonly number: number })[]) {
  const reports = fakeReports();
  for (const { number, ...more } of all) {
    const pullRequest = { forge: "gitea", repoName: "org/shop", number };
    await reports.save(aReport({ pullRequest, repo: following("a").repo, baseBranch: "main", ...more }));
  }
  return reports;
}

/** The state that replicas share. */
function fakeRedis() {
  const claims = new Map<string, number>();
  const requests: ReconcileRequest[] = [];
  const moved: string[] = [];
  const state: { down: boolean; move?: string } = { down: false };
  const answer = () => {
    if (state.down) throw new Error("Redis is away");
  };
  const queue: SweepDeps["queue"] = {
    async enqueue(wanted) {
      answer();
      requests.push(...(wanted as ReconcileRequest[]));
      return { queued: wanted.length };
    },
    async markMoved(repo) {
      answer();
      moved.push(`${repo} before ${requests.length}`);
    },
    lastMove: async () => state.move,
    async claim(what, forMs) {
      answer();
      if ((claims.get(what) ?? 0) > Date.now()) return false;
      claims.set(what, Date.now() + forMs);
      return true;
    },
  };
  return { queue, requests, moved, state };
}

function useSweep(
  deployments: Deployment[],
  { redis = fakeRedis(), ...deps }: Partial<SweepDeps> & { redis?: ReturnType<typeof fakeRedis> } = {},
) {
  const looks: string[] = [];
  const refs = new Map([["refs/heads/main", "c1"]]);
  const sweep = startSweep({
    deployments: { all: () => deployments },
    heads: async ({ url }) => {
      looks.push(url.split("/").at(-1) ?? "");
      return { defaultRef: "refs/heads/main", commits: new Map(refs) };
    },
    groupKey: ({ url }) => url,
    tag: () => Promise.resolve({ digest: undefined, checkedOut: undefined }),
    tagKey: ({ source }) => source.url,
    dueAt: () => Infinity,
    retries: createRetries({ now: () => 0 }),
    queue: redis.queue,
    everyMs: () => minute,
    clock: { now: () => Date.now() },
    log: silentLog,
    ...deps,
  });
  onTestFinished(() => sweep.stop());
  return { sweep, looks, refs, ...redis };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("a move without a webhook is found once, and the repository is marked as moved before the requests are queued", async () => {
  const { refs, requests, moved } = useSweep([
    following("a"),
    following("b"),
    following("dev", { ref: { branch: "dev" }, status: { lastPrepareError: "no such branch" } }),
  ]);
  await pass(10_000);
  expect(requests).toEqual([]);

  refs.set("refs/heads/main", "c2");
  await pass(minute);

  expect(requests.map(({ deployment, cause }) => [deployment.name, cause])).toEqual([
    ["a", "sweep"],
    ["b", "sweep"],
  ]);
  expect(moved).toEqual(["git.example.com/org/shop before 0"]);
});

test("a move does not request deployments that it does not affect, but it does request previews", async () => {
  const spared: unknown[] = [];
  const { refs, requests, moved } = useSweep([following("a"), following("b"), following("c")], {
    skipCheck: async ({ key }, to) => {
      spared.push(to);
      return key.name === "b" ? "check" : key.name === "c" ? "later" : "skipped";
    },
    reports: await openPullRequests({ number: 7, base: "c1" }),
  });
  await pass(10_000);
  refs.set("refs/heads/main", "c2");
  await pass(minute);
  expect(requests.map((one) => one.kind === "reconcile" && one.deployment.name)).toEqual(["b", false]);
  expect(spared[0]).toEqual({ commit: "c2", at: expect.any(Number) as number });
  expect(moved).toHaveLength(1);
  // Their statuses still name the old commit, so they are checked again.
  await pass(minute);
  expect(spared).toHaveLength(6);
});

test("a move without a webhook also requests previews of the open pull requests into that branch", async () => {
  const { refs, requests } = useSweep(
    [following("a"), following("b", { ref: {} }), following("c", { ref: { branch: "release" } })],
    {
      reports: await openPullRequests({ number: 7, base: "c1" }, { number: 8, base: "c1", baseBranch: "release" }),
    },
  );
  refs.set("refs/heads/release", "c1");
  await vi.advanceTimersByTimeAsync(minute);
  expect(requests).toEqual([]);

  refs.set("refs/heads/main", "c2");
  await vi.advanceTimersByTimeAsync(minute);
  expect(requests.map((request) => ("deployment" in request ? request.deployment.name : request))).toEqual([
    "a",
    "b",
    { kind: "preview", cause: "base", pullRequest: { forge: "gitea", repoName: "org/shop", number: 7 } },
  ]);
});

test("pull requests are previewed after a move that a deployment has taken already, once for each commit", async () => {
  const deployment = following("a", { status: { observedCommit: "c2" } });
  const reports = await openPullRequests({ number: 7, base: "c1" }, { number: 8, base: "c2" });
  const { refs, requests } = useSweep([deployment], { reports });
  refs.set("refs/heads/main", "c2");
  await pass(3 * minute);
  expect(requests).toMatchObject([{ kind: "preview", cause: "base", pullRequest: { number: 7 } }]);
});

test("the base of a report that an earlier version listed is read from the report", async () => {
  const { saved, ...reports } = await openPullRequests({ number: 7, base: "c1" }, { number: 8, base: "c2" });
  const open: typeof reports.open = async (repo) =>
    (await reports.open(repo)).map(({ base, affects, ...entry }) => ({ ...entry }));
  const { refs, requests } = useSweep([following("a", { status: { observedCommit: "c2" } })], {
    reports: { ...reports, open },
  });
  refs.set("refs/heads/main", "c2");
  await pass(minute);
  expect(requests).toMatchObject([{ pullRequest: { number: 7 } }]);
});

test("a thousand deployments of one repository need one request per period", async () => {
  const deployments = Array.from({ length: 1_000 }, (_, i) => following(`d${i}`));
  const { looks, refs, requests } = useSweep(deployments);
  await pass(10_000);
  const before = looks.length;

  refs.set("refs/heads/main", "c2");
  await pass(minute);

  expect(looks.length - before).toBe(1);
  expect(requests).toHaveLength(1_000);
});

test("the first check comes within seconds of the start, and later ones are spread over the period", async () => {
  const deployments = Array.from({ length: 60 }, (_, i) => following(`d${i}`, { repo: `r${i}` }));
  const { looks } = useSweep(deployments);
  await pass(7_000);
  expect(new Set(looks).size).toBe(60);

  await pass(minute);
  const perTenSeconds: number[] = [];
  for (let i = 0; i < 6; i++) {
    const before = looks.length;
    await pass(10_000);
    perTenSeconds.push(looks.length - before);
  }
  expect(perTenSeconds.reduce((sum, n) => sum + n)).toBe(60);
  expect(Math.max(...perTenSeconds)).toBeLessThan(25);
});

test("tags and the default branch are followed, and pinned and unseen deployments are not requested", async () => {
  const { refs, requests, looks } = useSweep([
    following("tag", { ref: { tag: "v1" } }),
    following("default", { ref: {} }),
    following("pinned", { ref: { commit: "c0" } }),
    following("suspended", { suspend: true }), // its status has to say that the commit is not deployed
    following("unseen", { status: { observedGeneration: undefined, observedCommit: undefined } }),
    following("only-pinned", { repo: "other", ref: { commit: "c0" } }),
  ]);
  refs.set("refs/heads/main", "c2").set("refs/tags/v1", "c2");
  await pass(10_000);

  expect(requests.map(({ deployment }) => deployment.name).toSorted()).toEqual(["default", "suspended", "tag"]);
  expect(looks).not.toContain("other");
});

test("a request that Redis lost is repeated by the next check, and less and less often while nothing changes", async () => {
  const { refs, requests, sweep } = useSweep([following("a")]);
  await sweep.runNow();
  refs.set("refs/heads/main", "c2");

  const asked: number[] = [];
  for (let period = 0; period < 30; period++) {
    const before = requests.length;
    await pass(minute);
    if (requests.length > before) asked.push(period);
  }

  expect(asked.slice(0, 4)).toEqual([0, 1, 3, 7]);
  expect(asked.length).toBeLessThan(7);
});

test("a deployment that caught up while the remote was asked is not requested", async () => {
  const deployments = [following("a")];
  const { requests } = useSweep(deployments, {
    heads: async () => {
      deployments[0] = following("a", { status: { observedCommit: "c2" } });
      return { commits: new Map([["refs/heads/main", "c2"]]) };
    },
  });
  await pass(10_000);

  expect(requests).toEqual([]);
});

test("a deployment whose branch is deleted is requested until its status says so", async () => {
  const deployments = [following("a")];
  const { refs, requests } = useSweep(deployments);
  await pass(10_000);
  refs.delete("refs/heads/main");
  await pass(minute);
  expect(requests).toHaveLength(1);

  deployments[0] = following("a", { status: { lastPrepareError: "branch main: no such ref" } });
  await pass(20 * minute);
  expect(requests).toHaveLength(1);

  refs.set("refs/heads/main", "c3"); // the branch is back
  await pass(minute);
  expect(requests).toHaveLength(2);
});

test("a branch that is back at the same commit is found by a deployment whose status still says that it is missing", async () => {
  const failing = { lastPrepareError: "no such branch" };
  const { refs, requests } = useSweep([
    following("lost", { status: failing }),
    following("other", { ref: { branch: "dev" }, status: failing }),
    following("suspended", { suspend: true, status: failing }),
  ]);
  refs.set("refs/heads/dev", "c1");
  refs.delete("refs/heads/main");
  await pass(minute);
  expect(requests).toEqual([]); // their statuses already say so

  refs.set("refs/heads/main", "c1");
  await pass(10 * minute);
  expect(requests.map(({ deployment }) => deployment.name)).toEqual(["lost"]);
});

test("a failing remote is asked less and less often, and the other remotes as usual", async () => {
  const looks: Record<string, number> = { good: 0, bad: 0 };
  let broken = true;
  const { requests } = useSweep([following("good", { repo: "good" }), following("bad", { repo: "bad" })], {
    heads: async ({ deployment: { key } }) => {
      looks[key.name]!++;
      if (key.name === "bad" && broken) throw new Error("no route to host");
      return { commits: new Map([["refs/heads/main", key.name === "bad" ? "c2" : "c1"]]) };
    },
  });

  await pass(60 * minute);
  expect(looks["good"]).toBeGreaterThanOrEqual(60);
  expect(looks["bad"]).toBeLessThan(12);

  broken = false;
  await pass(11 * minute);
  expect(requests.map(({ deployment }) => deployment.name)).toContain("bad");
});

test("at most four checks of one host run at once, and all get their turn", async () => {
  let running = 0;
  let most = 0;
  const looked = new Set<string>();
  const deployments = Array.from({ length: 40 }, (_, i) => following(`d${i}`, { repo: `r${i}` }));
  useSweep(deployments, {
    heads: async ({ deployment: { key } }) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve, 300));
      running--;
      looked.add(key.name);
      return { commits: new Map([["refs/heads/main", "c1"]]) };
    },
  });

  await pass(10_000);

  expect(most).toBe(4);
  expect(looked.size).toBe(40);
});

test("one of several replicas checks a remote per period, and each checks once when it starts", async () => {
  const redis = fakeRedis();
  const first = useSweep([following("a")], { redis });
  await pass(10_000);
  const second = useSweep([following("a")], { redis });
  await pass(10_000);
  expect([first.looks.length, second.looks.length].map((n) => n > 0)).toEqual([true, true]);

  const before = first.looks.length + second.looks.length;
  await pass(10 * minute);
  expect(first.looks.length + second.looks.length - before).toBe(10);
});

test("while Redis is unavailable no remote is asked, and the age of the sweep shows it", async () => {
  const { sweep, looks, refs, requests, state } = useSweep([following("a")]);
  await pass(10_000);
  expect(sweep.age()).toBeLessThan(minute);
  state.down = true;
  refs.set("refs/heads/main", "c2");
  const before = looks.length;
  await pass(5 * minute);
  expect(looks.length).toBe(before);
  expect(sweep.age()).toBeGreaterThan(240);

  state.down = false;
  await pass(15_000);
  expect(requests).toHaveLength(1);
  expect(sweep.age()).toBeLessThan(60);
});

test("a sweep can be run at once, and stopping aborts one that hangs", async () => {
  let looking = false;
  const { sweep } = useSweep([following("a")], {
    heads: (_, signal) =>
      new Promise((_resolve, reject) => {
        looking = true;
        signal.addEventListener("abort", () => reject(signal.reason as Error));
      }),
  });

  const swept = sweep.runNow();
  await pass(0);
  expect(looking).toBe(true);
  await sweep.stop();
  await swept;
});

test("a suspended deployment whose status names a commit that is not deployed is requested when the branch is back", async () => {
  const [one, two] = ["1".repeat(40), "2".repeat(40)];
  const noted = (observedCommit: string, commit: string) => {
    const message = `deploy succeeded. Suspended: commit ${commit} is not deployed.`;
    const ready = { type: "Ready", status: "True", reason: "", message, lastTransitionTime: "" } as const;
    return { observedCommit, conditions: [ready] };
  };
  const { refs, requests } = useSweep([
    following("noted", { suspend: true, status: noted(one, two) }),
    following("plain", { suspend: true, status: { observedCommit: one } }),
  ]);
  refs.set("refs/heads/main", one);
  await pass(10_000);
  expect(requests.map(({ deployment }) => deployment.name)).toEqual(["noted"]);
});

test("a suspended deployment with a deleted branch is requested only if its status names a pending commit", async () => {
  const { refs, requests } = useSweep([following("plain", { suspend: true })]);
  refs.delete("refs/heads/main");
  await pass(10_000);
  expect(requests).toEqual([]);
});

test("each repository has its own period, which may change at any time, and what it was seen to have is passed on", async () => {
  const periods: Record<string, number> = { shop: 5 * minute, blog: 10_000 };
  const everyMs = ({ url }: { url: string }) => periods[url.split("/").at(-1) ?? ""] ?? minute;
  const seen: string[] = [];
  const { looks } = useSweep([following("a"), following("b", { repo: "blog" })], {
    paces: {
      everyMs,
      longestMs: everyMs,
      looked: (refs) => seen.push(...refs.map(({ repo, ref, commit }) => `${repo} ${ref} ${commit}`)),
    },
  });
  const count = (name: string) => looks.filter((one) => one === name).length;
  await pass(5 * minute);
  expect(count("shop")).toBeLessThanOrEqual(2);
  expect(count("blog")).toBeGreaterThanOrEqual(28);
  expect(new Set(seen)).toEqual(
    new Set(["git.example.com/org/shop branch main c1", "git.example.com/org/blog branch main c1"]),
  );

  periods["shop"] = 10_000;
  const before = count("shop");
  await pass(minute);
  expect(count("shop") - before).toBeGreaterThanOrEqual(5);
});

test("where webhooks are relied on, a repository is left out until the longest time, or until a move is reported", async () => {
  const redis = fakeRedis();
  const { looks, refs, requests } = useSweep([following("a")], {
    redis,
    paces: { everyMs: () => minute, longestMs: () => 5 * minute, looked: () => undefined },
  });
  await pass(10_000);
  expect(looks).toHaveLength(1);
  await pass(3 * minute);
  expect(looks).toHaveLength(1);
  await pass(2 * minute);
  expect(looks).toHaveLength(2);

  // A webhook reported a push that, by its paths, does not affect the deployment.
  refs.set("refs/heads/main", "c2");
  redis.state.move = "a push";
  await pass(minute);
  expect([looks.length, requests.length]).toEqual([3, 1]);
});
