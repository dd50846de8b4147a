import { describe, expect, test } from "vitest";
import { headOf } from "../../../src/flux/head-of.ts";
import { createOnFluxPush } from "../../../src/flux/on-push.ts";
import { createIntake } from "../../../src/intake/intake.ts";
import type { FluxRef, FluxSource, PushEvent, Request } from "../../../src/model.ts";
import { aFluxSource } from "../../support/flux.ts";
import { silentLog } from "../../support/fakes.ts";

const commit = "1".repeat(40);
const push: PushEvent = {
  ...{ kind: "push", forge: "github", delivery: "7c1e", repoName: "org/shop", change: "updated", after: commit },
  repoUrls: ["https://git.example.com/org/shop.git", "git@git.example.com:org/shop.git"],
  ...{ ref: "refs/heads/main", defaultBranch: "main", changed: { complete: false, paths: [] } },
};

async function accept(event: PushEvent, sources: readonly FluxSource[]) {
  const requests: Request[] = [];
  const take = createIntake({
    tracking: () => [],
    including: () => [],
    onFluxPush: createOnFluxPush({ fetched: (repo) => sources.filter((source) => source.repo === repo) }),
    queue: {
      enqueue(wanted) {
        requests.push(...wanted);
        return Promise.resolve({ queued: wanted.length });
      },
    },
    log: silentLog,
  });
  return { receipt: await take(event), requests };
}

test("a push makes Flux fetch each GitRepository that follows it, once, and the answer names them and the others", async () => {
  const { receipt, requests } = await accept(push, [
    aFluxSource({ name: "main" }),
    aFluxSource({ name: "ssh", url: "ssh://git@git.example.com:2222/org/shop" }),
    aFluxSource({ name: "release", ref: { branch: "release" } }),
    aFluxSource({ name: "other", url: "https://git.example.com/org/other" }),
  ]);
  expect(requests).toEqual([
    { kind: "flux-fetch", source: { namespace: "flux-system", name: "main" }, cause: "push", commit, delivery: "7c1e" },
    { kind: "flux-fetch", source: { namespace: "flux-system", name: "ssh" }, cause: "push", commit, delivery: "7c1e" },
  ]);
  expect(receipt).toMatchObject({
    ...{ matched: 0, queued: 2, reason: undefined },
    flux: {
      matched: 2,
      sources: ["flux-system/main", "flux-system/ssh"],
      ignored: [{ source: "flux-system/release", reason: "follows refs/heads/release, the push is to branch main" }],
    },
  });
});

test("a repository that no GitRepository is of says nothing about Flux", async () => {
  const { receipt, requests } = await accept(push, [aFluxSource({ url: "https://git.example.com/org/other" })]);
  expect(requests).toEqual([]);
  expect(receipt).not.toHaveProperty("flux");
  expect(receipt.reason).toBe("no deployment follows this repository");
});

describe("what a GitRepository follows", () => {
  const cases: readonly (readonly [FluxRef, follows: readonly string[], ignores: readonly string[]])[] = [
    [{}, ["refs/heads/master"], ["refs/heads/main", "refs/tags/master"]],
    [{ branch: "main" }, ["refs/heads/main"], ["refs/heads/main2", "refs/tags/main"]],
    [{ tag: "v1" }, ["refs/tags/v1"], ["refs/heads/v1", "refs/tags/v1.0"]],
    [{ name: "refs/heads/main" }, ["refs/heads/main"], ["refs/heads/master"]],
    [
      { semver: "1.x" },
      ["refs/tags/1.2.0", "refs/tags/v1.0.0"],
      ["refs/tags/2.0.0", "refs/tags/1.2", "refs/heads/1.2.0"],
    ],
    [{ semver: ">=1.0.0-0" }, ["refs/tags/1.2.0-rc.1"], ["refs/tags/0.9.0"]],
    [{ semver: "only Flux knows" }, ["refs/tags/9.9.9"], ["refs/tags/latest", "refs/heads/main"]],
    // Flux's precedence: commit, name, semver, tag, branch
    [{ branch: "main", tag: "v1" }, ["refs/tags/v1"], ["refs/heads/main"]],
    [{ tag: "v1", semver: "2.x" }, ["refs/tags/2.0.0"], ["refs/tags/v1"]],
    [{ semver: "2.x", name: "refs/heads/main" }, ["refs/heads/main"], ["refs/tags/2.0.0"]],
    [{ branch: "main", commit }, [], ["refs/heads/main"]],
  ];
  test.each(cases)("%j", async (ref, follows, ignores) => {
    const matched = async (pushed: string) => {
      const { receipt } = await accept({ ...push, ref: pushed }, [aFluxSource({ ref })]);
      return receipt.flux?.matched;
    };
    for (const pushed of follows) expect(await matched(pushed), pushed).toBe(1);
    for (const pushed of ignores) expect(await matched(pushed), pushed).toBe(0);
  });
});

test.each<[string, Partial<FluxSource>]>([
  ["suspended", { suspended: true }],
  ["webhooks are disabled by annotation", { webhooks: false }],
  [`is pinned to commit ${commit}`, { ref: { commit } }],
])("it is left alone: %s", async (reason, more) => {
  const { receipt, requests } = await accept(push, [{ ...aFluxSource({ name: "shop" }), ...more }]);
  expect(requests).toEqual([]);
  expect(receipt.flux).toEqual({ matched: 0, sources: [], ignored: [{ source: "flux-system/shop", reason }] });
});

test("what the watch shows of Flux is no reason to ignore a push: it may be behind", async () => {
  const { receipt, requests } = await accept(push, [aFluxSource({ name: "shop", commit })]);
  expect(receipt.flux?.matched).toBe(1);
  expect(requests).toMatchObject([{ kind: "flux-fetch", commit }]);
});

test("the head of a range is its highest version; of two equal ones only Flux knows which is later", () => {
  const tags = (...names: string[]) => ({ commits: new Map(names.map((name) => [`refs/tags/${name}`, `at ${name}`])) });
  const ref = { semver: "1.x" };
  expect(headOf(ref, tags("1.9.0", "v1.10.0", "2.0.0", "1.11.0-rc.1", "latest"))).toBe("at v1.10.0");
  expect(headOf(ref, tags("1.9.0", "v1.9.0", "1.8.0"))).toBeUndefined();
  expect(headOf(ref, tags("2.0.0"))).toBeUndefined();
  expect(headOf({ semver: "only Flux knows" }, tags("1.0.0"))).toBeUndefined();
  expect(headOf({ commit }, tags("1.0.0"))).toBeUndefined();
  expect(headOf({}, { commits: new Map([["refs/heads/master", "m"]]) })).toBe("m");
});

describe("the status of what Flux applies", () => {
  async function acceptStatuses(event: PushEvent, ...sources: FluxSource[]) {
    const calls: { requests: readonly Request[]; moved: readonly string[] }[] = [];
    const take = createIntake({
      tracking: () => [],
      including: () => [],
      onFluxPush: createOnFluxPush({ reported: (repo) => sources.filter((source) => source.repo === repo) }),
      queue: {
        enqueue(requests, moved = []) {
          calls.push({ requests, moved });
          return Promise.resolve({ queued: requests.length });
        },
      },
      forges: new Set(["github"]),
      log: silentLog,
    });
    return { receipt: await take(event), calls };
  }
  const { repo } = aFluxSource();

  test("is requested once, by a push to a ref that one of them follows, also if Flux has it already", async () => {
    const tag: PushEvent = { ...push, ref: "refs/tags/v1.2.0" };
    for (const [event, ...sources] of [
      [push, aFluxSource({ commit }), aFluxSource({ name: "other" }), aFluxSource({ name: "off", suspended: true })],
      [tag, aFluxSource({ ref: { semver: "1.x" } })],
      [tag, aFluxSource({ ref: { tag: "v1.2.0" } })],
    ] as [PushEvent, ...FluxSource[]][]) {
      const { receipt, calls } = await acceptStatuses(event, ...sources);
      const request = {
        kind: "commit-status",
        commit: { forge: "github", repoName: "org/shop", commit },
        ...{ repo, pushedTo: event.ref },
      };
      expect(calls).toEqual([{ requests: [request], moved: [repo] }]);
      expect(receipt.reason).toBeUndefined();
      expect(receipt).not.toHaveProperty("flux");
    }
  });

  test("is written again when a user requests that on the host", async () => {
    const requests: Request[] = [];
    const take = createIntake({
      tracking: () => [],
      including: () => [],
      reportedByFlux: (of) => (of === repo ? [aFluxSource()] : []),
      queue: { enqueue: (those) => Promise.resolve({ queued: requests.push(...those) }) },
      forges: new Set(["github"]),
      log: silentLog,
    });
    const { repoUrls, repoName } = push;
    await take({ kind: "rerun", forge: "github", delivery: "5e11", repoUrls, repoName, commit });
    expect(requests).toEqual([{ kind: "commit-status", commit: { forge: "github", repoName, commit }, repo }]);
  });

  test.each<[string, Partial<PushEvent>, FluxRef]>([
    ["another branch", {}, { branch: "release" }],
    ["no commit", { change: "deleted", after: undefined }, { branch: "main" }],
    ["a fixed commit", {}, { commit }],
    ["a tag that is no version in the range", { ref: "refs/tags/v2.0.0" }, { semver: "1.x" }],
    ["a branch with the name of a tag", {}, { tag: "main" }],
    ["a git host to which the server cannot log in", { forge: "other" }, { branch: "main" }],
  ])("is not requested for %s", async (_, event, ref) => {
    const { calls } = await acceptStatuses({ ...push, ...event }, aFluxSource({ ref }));
    expect(calls.flatMap(({ requests }) => requests)).toEqual([]);
  });
});

describe("pull requests of a repository of which Flux applies a branch", () => {
  const { repo } = aFluxSource();
  const shown = { forge: "github", repoName: "org/shop", number: 7 };

  function aPreviewingIntake() {
    const requests: Request[] = [];
    const take = createIntake({
      tracking: () => [],
      including: () => [],
      previewedByFlux: (of) => (of === repo ? [aFluxSource()] : []),
      queue: { enqueue: (those) => Promise.resolve({ queued: requests.push(...those) }) },
      forges: new Set(["github"]),
      reports: () => ({
        open: () => Promise.resolve([]),
        openInto: (of, branch) => Promise.resolve(of === repo && branch === "main" ? [shown] : []),
        proposing: () => Promise.resolve([]),
      }),
      log: silentLog,
    });
    return { take, requests };
  }

  test("are previewed again when that branch moves", async () => {
    const { take, requests } = aPreviewingIntake();
    const receipt = await take(push);
    expect(requests).toMatchObject([{ kind: "preview", pullRequest: shown, cause: "base" }]);
    expect(receipt).toMatchObject({ matched: 0, previews: 1 });
    expect(receipt.reason).toBeUndefined();
  });

  test("are not when another one does", async () => {
    const { take, requests } = aPreviewingIntake();
    await take({ ...push, ref: "refs/heads/other" });
    expect(requests).toEqual([]);
  });
});
