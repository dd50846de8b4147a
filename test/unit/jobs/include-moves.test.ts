import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { startSweep, type SweepDeps } from "../../../jobs/sweeps/sweep.ts";
import { includedLoginKey, loginKey } from "../../../src/access/credentials.ts";
import { annotation, type Deployment, type FoundPush, type Request } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { createRetries } from "../../../src/reconcile/retries.ts";
import { aDeployment, aStatus } from "../../support/deployments.ts";
import { aReport, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const minute = 60_000;
const library = "https://git.example.com/platform/library.git";
const [main, next] = ["refs/heads/main", "refs/heads/next"];
const [c1, c2, c3] = ["1".repeat(40), "2".repeat(40), "3".repeat(40)] as const;

beforeEach(() => void vi.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") }));
afterEach(() => void vi.useRealTimers());

interface Options extends Partial<Pick<Deployment, "resourceVersion" | "deletionTimestamp">> {
  readonly spec?: NonNullable<Parameters<typeof aDeployment>[0]>["spec"];
  /** The annotation's text: what was rendered last. */
  readonly recorded?: string | undefined;
  readonly includes?: string;
}

function including(
  name: string,
  { recorded = `${library} ${main} ${c1}`, includes = library, spec, ...more }: Options = {},
): Deployment {
  return aDeployment({
    key: { namespace: "apps", name },
    annotations: {
      [annotation.includes]: includes,
      ...(recorded !== "" && { [annotation.includedCommits]: recorded }),
    },
    spec: { ...spec },
    status: aStatus({ observedGeneration: 1, observedCommit: "own" }),
    ...more,
  });
}

function useSweep(deployments: Deployment[], deps: Partial<SweepDeps> = {}) {
  const asked: string[] = [];
  const requests: Request[] = [];
  const moved: string[] = [];
  const claims = new Map<string, number>();
  const refs = new Map([
    [main, c1],
    [next, c1],
  ]);
  const state: { error?: Error } = {};
  const sweep = startSweep({
    deployments: { all: () => deployments },
    async heads({ url }) {
      if (url !== library) return { defaultRef: main, commits: new Map([[main, "own"]]) };
      asked.push(url);
      if (state.error) throw state.error;
      return { defaultRef: main, commits: new Map(refs) };
    },
    groupKey: ({ use, deployment, url }) =>
      use === "source" ? loginKey(deployment) : includedLoginKey(deployment, url),
    tag: () => Promise.resolve({ digest: undefined, checkedOut: undefined }),
    tagKey: ({ source }) => source.url,
    dueAt: () => Infinity,
    retries: createRetries({ now: () => 0 }),
    queue: {
      async enqueue(wanted) {
        requests.push(...(wanted as Request[]));
        return { queued: wanted.length };
      },
      async markMoved(repo) {
        moved.push(`${repo} before ${requests.length}`);
      },
      lastMove: async () => undefined,
      async claim(what, forMs) {
        if ((claims.get(what) ?? 0) > Date.now()) return false;
        claims.set(what, Date.now() + forMs);
        return true;
      },
    },
    everyMs: () => minute,
    clock: { now: () => Date.now() },
    log: silentLog,
    ...deps,
  });
  onTestFinished(() => sweep.stop());
  return { asked, requests, moved, refs, state };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const namesOf = (requests: readonly Request[]) =>
  requests.map((one) => (one.kind === "reconcile" ? `${one.deployment.name} ${one.cause}` : one.kind));

test("a push to an included repository without a webhook is found by what the deployments have rendered", async () => {
  const deployments = [
    including("behind"),
    including("tagged", { recorded: `${library} refs/tags/v1 ${c1}` }),
    including("current", { recorded: `${library} ${next} ${c1}` }),
  ];
  const { refs, requests, moved } = useSweep(deployments);
  refs.set("refs/tags/v1", c1);
  await pass(10_000);
  expect(requests).toEqual([]);

  refs.set(main, c2).set("refs/tags/v1", c2);
  await pass(minute);
  expect(namesOf(requests)).toEqual(["behind include", "tagged include"]);
  // No job of this push gets an earlier answer of git.
  expect(moved).toEqual(["git.example.com/platform/library before 0", "git.example.com/org/shop before 0"]);
});

test("a branch and a tag of one name are two refs of an included repository", async () => {
  const recorded = [`${library} ${main} ${c1}`, `${library} refs/tags/main ${c2}`];
  const seen = new Map<string | undefined, readonly FoundPush[]>();
  const looked = (refs: readonly FoundPush[]) => void seen.set(refs[0]?.url, refs);
  const { refs } = useSweep(
    recorded.map((one, i) => including(`app-${i}`, { recorded: one })),
    { paces: { everyMs: () => minute, longestMs: () => minute, looked } },
  );
  refs.set("refs/tags/main", c2);
  await pass(10_000);
  expect(seen.get(library)?.map(({ ref, commit }) => [ref, commit])).toEqual([
    ["branch main", c1],
    ["tag main", c2],
  ]);
});

test("a server that starts finds the pushes that came while none was running", async () => {
  const { requests } = useSweep([including("behind", { recorded: `${library} ${main} ${c3}` })]);
  await pass(10_000);
  expect(namesOf(requests)).toEqual(["behind include"]);
});

test("deployments that include a repository with the same login are found by one question in each period", async () => {
  const login = (secretName: string) => ({ gitCredentials: [{ host: "*", bySource: false, secretName }] });
  const follower = aDeployment({
    key: { namespace: "apps", name: "follower" },
    spec: { source: { url: library, ref: { branch: "main" }, path: "" } },
    repo: repoId(library)!,
    status: aStatus({ observedGeneration: 1, observedCommit: c1 }),
  });
  const { asked } = useSweep([including("a"), including("b"), follower]);
  await pass(10_000);
  const before = asked.length;
  await pass(10 * minute);
  expect(asked.length - before).toBe(10);

  const others = useSweep([
    including("a", { spec: login("one") }),
    including("b", { spec: login("one") }),
    including("c", { spec: login("two") }),
  ]);
  await pass(10_000);
  const start = others.asked.length;
  await pass(10 * minute);
  expect(others.asked.length - start).toBe(20);
});

test("a deployment that was reconciled and still differs is not requested again for the same commit", async () => {
  const deployments = [including("stuck", { resourceVersion: "1" })];
  const { refs, requests } = useSweep(deployments);
  await pass(10_000);
  refs.set(main, c2);
  await pass(minute);
  deployments[0] = including("stuck", { resourceVersion: "2" });
  await pass(180 * minute);
  expect(namesOf(requests)).toEqual(["stuck include"]);

  refs.set(main, c3);
  await pass(minute);
  expect(requests).toHaveLength(2);
});

test("a request that Redis lost is made again, less and less often", async () => {
  const { refs, requests } = useSweep([including("lost")]);
  await pass(10_000);
  refs.set(main, c2);
  const asked: number[] = [];
  for (let period = 0; period < 20; period++) {
    const before = requests.length;
    await pass(minute);
    if (requests.length > before) asked.push(period);
  }
  expect(asked).toEqual([0, 1, 3, 7, 15]);
});

test("a library that cannot be read is asked less and less often, and nothing is requested", async () => {
  const { asked, requests, state } = useSweep([including("a", { recorded: `${library} ${main} ${c3}` })]);
  state.error = new Error("authentication failed");
  await pass(60 * minute);
  expect(asked.length).toBeLessThan(12);
  expect(requests).toEqual([]);
});

test.each<[string, Deployment]>([
  ["is suspended", including("a", { recorded: `${library} ${main} ${c3}`, spec: { suspend: true } })],
  [
    "is being deleted",
    including("a", { recorded: `${library} ${main} ${c3}`, deletionTimestamp: "2026-01-01T00:00:00Z" }),
  ],
  ["has no record of what it rendered", including("a", { recorded: "" })],
  ["does not include the repository any more", including("a", { includes: "https://git.example.com/platform/other" })],
])("the included repository of a deployment is not asked for if it %s", async (_, deployment) => {
  const { asked, requests } = useSweep([deployment]);
  await pass(3 * minute);
  expect(asked).toEqual([]);
  expect(requests).toEqual([]);
});

test("a deleted branch of a library is a move", async () => {
  const { refs, requests } = useSweep([including("a")]);
  await pass(10_000);
  refs.delete(main);
  await pass(minute);
  expect(namesOf(requests)).toEqual(["a include"]);
});

test("a move of a library's base branch requests previews of the pull requests into it", async () => {
  const reports = fakeReports();
  const pullRequest = { forge: "gitea", repoName: "platform/library", number: 7 };
  await reports.save(aReport({ pullRequest, repo: repoId(library)!, baseBranch: "main", base: c1 }));
  const { refs, requests } = useSweep([including("a")], { reports });
  await pass(10_000);
  refs.set(main, c2);
  await pass(minute);
  expect(requests).toContainEqual({ kind: "preview", cause: "base", pullRequest });
});

test("whether webhooks arrive for a library is judged by the pushes that the sweep sees", async () => {
  const looked: string[] = [];
  const { refs } = useSweep([including("a")], {
    paces: {
      everyMs: () => minute,
      longestMs: () => minute,
      looked: (found) => void looked.push(...found.map(({ repo, ref, commit }) => `${repo} ${ref} ${commit}`)),
    },
  });
  refs.set(main, c2);
  await pass(10_000);
  expect(looked).toContain(`git.example.com/platform/library branch main ${c2}`);
});
