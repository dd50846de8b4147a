import { describe, expect, test } from "vitest";
import { annotation } from "../../../src/model.ts";
import { anObject, aResult, aSummary } from "../../support/deployments.ts";
import { aReport } from "../../support/fake-reports.ts";
import { fakeKluctl, fakeReadIdentity } from "../../support/fakes.ts";
import { aChange, aPreviewWorld, base, head, inFolder, key, named, startedAt } from "../../support/preview.ts";

test("an open pull request is merged and compared with the cluster, and its report is saved for the comment", async () => {
  const { run, told, sources, kluctl, queue, cluster, time, reports } = aPreviewWorld([
    named("prod", { spec: { ...inFolder("app"), target: "prod", serviceAccountName: "deployer", timeoutMs: 60_000 } }),
  ]);
  expect(await run()).toEqual({ kind: "done" });
  expect(sources.merges).toEqual([{ url: "https://git.example.com/org/shop", credentials: [], head, base }]);
  expect(kluctl.runs).toEqual([
    {
      command: "diff",
      run: expect.objectContaining({
        deployment: { namespace: "shop", name: "prod" },
        ...{ projectDir: "/merge/app", target: "prod", timeoutMs: 60_000, cold: true, held: undefined },
        impersonate: "system:serviceaccount:shop:deployer",
      }),
    },
  ]);
  expect(told).toEqual([
    {
      ...{ v: 1, pullRequest: key, url: "https://git.example.com/org/shop/pulls/7", repo: "git.example.com/org/shop" },
      ...{ baseBranch: "main", head, base, state: "done", earlierHeads: [], restarts: 0 },
      ...{ startedAt: time.now, finishedAt: time.now },
      previews: [
        expect.objectContaining({
          ...{ deployment: { namespace: "shop", name: "prod" }, target: "prod", cluster: "eu-1", state: "done" },
          ...{
            suspended: false,
            drift: 0,
            counts: { new: 0, changed: 1, deleted: 0, orphan: 0, errors: 0, warnings: 0 },
          },
          objects: [expect.objectContaining({ action: "changed" })],
        }),
      ],
    },
  ]);
  expect(await reports.find(key)).toEqual(told[0]);
  expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
  expect(sources.released).toEqual([`merge of ${head}`]);
  expect([cluster.patches, cluster.events]).toEqual([[], []]);
});

test("a preview times out after its deployment's timeout or interval, or after ten minutes", async () => {
  const day = 24 * 3_600_000;
  const { run, kluctl } = aPreviewWorld([
    named("daily", { spec: { ...inFolder("app"), intervalMs: day } }),
    named("long", { spec: { ...inFolder("app"), intervalMs: day, timeoutMs: 3_600_000 } }),
    named("often", { spec: { ...inFolder("app"), intervalMs: 120_000 } }),
  ]);
  await run();
  expect(kluctl.runs.map(({ run: { timeoutMs } }) => timeoutMs)).toEqual([600_000, 3_600_000, 120_000]);
});

describe("no report is written", () => {
  test("without a login for the forge's API", async () => {
    const { run, told } = aPreviewWorld([named("prod")], { forges: new Map() });
    expect(await run()).toEqual({ kind: "skipped", why: "no login is configured for the API of forge gitea" });
    expect(told).toEqual([]);
  });

  test("for a pull request that does not exist", async () => {
    const { run, forge, told, reports } = aPreviewWorld([named("prod")]);
    forge.pullRequests.clear();
    await reports.setUnpublished(key);
    expect(await run()).toEqual({ kind: "skipped", why: "there is no such pull request" });
    expect(told).toEqual([]);
    // The sweep would request it again and again.
    expect(await reports.unpublished(key.forge, 0)).toEqual([]);
  });

  test("for one that the host does not find now, whose report is still to be published", async () => {
    const { run, forge, reports } = aPreviewWorld([named("prod")]);
    await run();
    forge.pullRequests.clear();
    expect(await run()).toEqual({ kind: "skipped", why: "there is no such pull request" });
    expect(await reports.unpublished(key.forge, 0)).toEqual([key]);
  });

  test("before all deployments are known", async () => {
    const { run, time, told } = aPreviewWorld([named("prod")]);
    time.synced = false;
    expect(await run()).toMatchObject({ kind: "later", afterMs: 1_000 });
    expect(told).toEqual([]);
  });
});

describe("if no deployment is affected", () => {
  test("git is not asked, and the report has no previews", async () => {
    const { run, told, sources, queue } = aPreviewWorld([
      named("prod", { spec: inFolder("", { ref: { branch: "next" } }) }),
    ]);
    expect(await run()).toEqual({ kind: "done" });
    expect(told).toMatchObject([{ state: "done", repo: "git.example.com/org/shop", base: undefined, previews: [] }]);
    expect(queue.requests).toHaveLength(1);
    expect(sources.merges).toEqual([]);
  });

  test("the report names no repository if no deployment follows it", async () => {
    const { run, told } = aPreviewWorld([]);
    expect(await run()).toEqual({ kind: "done" });
    expect(told[0]?.repo).toBeUndefined();
  });

  test("because only other files change, the report still names the base", async () => {
    const annotations = { [annotation.reads]: "app/" };
    const { run, told, sources, kluctl } = aPreviewWorld([named("prod", { spec: inFolder("app"), annotations })]);
    sources.nextMerge.changed = { complete: true, paths: ["README.md"] };
    await run();
    expect(told).toMatchObject([{ state: "done", base, previews: [] }]);
    expect(kluctl.runs).toEqual([]);
    expect(sources.released).toHaveLength(1);
  });

  test("because the default branch is another one, nothing is merged", async () => {
    const { run, told, sources } = aPreviewWorld([named("prod", { spec: inFolder("", { ref: {} }) })], {
      pullRequest: { baseBranch: "next" },
    });
    sources.refs["refs/heads/next"] = "n".repeat(40);
    await run();
    expect(told).toMatchObject([{ base: "n".repeat(40), previews: [] }]);
    expect(sources.merges).toEqual([]);
  });
});

test("a fork's code is neither fetched nor rendered", async () => {
  const { run, told, sources, kluctl } = aPreviewWorld([named("prod")], { pullRequest: { fork: true } });
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([{ state: "done", obstacle: { kind: "fork" }, base: undefined, previews: [] }]);
  expect([sources.merges, kluctl.runs]).toEqual([[], []]);
});

test("a fork that affects no deployment is not reported as blocked", async () => {
  const { run, told } = aPreviewWorld([], { pullRequest: { fork: true } });
  await run();
  expect(told[0]?.obstacle).toBeUndefined();
});

test("a conflict is reported, and nothing is compared", async () => {
  const { run, told, sources, kluctl } = aPreviewWorld([named("prod")]);
  sources.nextMerge.conflict = ["app/a.yaml"];
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([
    { state: "done", base, obstacle: { kind: "conflict", paths: ["app/a.yaml"] }, previews: [] },
  ]);
  expect(kluctl.runs).toEqual([]);
});

describe("a deployment", () => {
  async function previewOf(overrides: Parameters<typeof named>[1], result = aChange) {
    const { run, previews } = aPreviewWorld([named("prod", overrides)], { kluctl: fakeKluctl({ diff: result }) });
    await run();
    return previews()[0];
  }

  test("that is suspended is compared and marked", async () => {
    expect(await previewOf({ spec: { suspend: true } })).toMatchObject({ state: "done", suspended: true });
  });

  test("that opts out of previews is ignored, independently of its webhooks annotation", async () => {
    expect(await previewOf({ annotations: { [annotation.preview]: "false" } })).toBeUndefined();
    expect(await previewOf({ annotations: { [annotation.webhooks]: "false" } })).toMatchObject({ state: "done" });
  });

  test("whose last check found drift shows what is found now", async () => {
    const drifted = { endTime: "2026-01-01T00:00:00Z", document: { objects: [{}, {}, {}] } };
    const status = { lastDriftDetectionResult: drifted };
    expect(await previewOf({ status }, aResult())).toMatchObject({ drift: 0 });
  });

  test.each([
    ["a change will wait after the merge", {}, "after-merge"],
    ["a change waits already", { lastObjectsHash: "h2" }, "pending"],
    ["what was rendered last is approved", { lastObjectsHash: "h1" }, "after-merge"],
    [
      "what was rendered last is deployed",
      { lastObjectsHash: "h2", lastDeployResult: aSummary({ document: { renderedObjectsHash: "h2" } }) },
      "after-merge",
    ],
  ] as const)("with manual approval: %s", async (_when, status, approval) => {
    expect(await previewOf({ spec: { manual: true, manualObjectsHash: "h1" }, status })).toMatchObject({ approval });
  });

  test("with manual approval needs none if the merge changes nothing", async () => {
    expect((await previewOf({ spec: { manual: true } }, aResult()))?.approval).toBeUndefined();
    expect((await previewOf({ spec: { manual: true }, status: { lastObjectsHash: "h2" } }, aResult()))?.approval).toBe(
      "pending",
    );
  });

  test.each([
    ["previewer", "usual", "deployer", "system:serviceaccount:shop:previewer"],
    [undefined, "usual", "deployer", "system:serviceaccount:shop:deployer"],
    [undefined, "usual", undefined, "system:serviceaccount:shop:usual"],
    [undefined, undefined, undefined, undefined],
  ])(
    "with preview account %s, default %s and own account %s, it is compared as %s",
    async (serviceAccount, ...rest) => {
      const [defaultServiceAccount, serviceAccountName, user] = rest;
      const readIdentity = fakeReadIdentity({ defaultServiceAccount });
      const { run, kluctl } = aPreviewWorld([named("prod", { spec: { serviceAccountName } })], {
        settings: { serviceAccount },
        readIdentity,
      });
      await run();
      expect(kluctl.runs[0]?.run.impersonate).toBe(user);
    },
  );

  test("a server that may not impersonate the account uses a token of it for a confined run", async () => {
    const readIdentity = fakeReadIdentity({ refusedToActAs: () => Promise.resolve("it may not") });
    const previewWhere = async (confined: boolean) => {
      const settings = { serviceAccount: "previewer", confined };
      const { run, kluctl, told } = aPreviewWorld([named("prod")], { settings, readIdentity });
      await run();
      const users = new Set(kluctl.runs.map(({ run: { impersonate } }) => impersonate));
      return { users: [...users], preview: told.at(-1)?.previews[0] };
    };

    expect(await previewWhere(true)).toMatchObject({
      users: ["system:serviceaccount:shop:previewer"],
      preview: { state: "done" },
    });
    expect(await previewWhere(false)).toMatchObject({
      users: [],
      preview: { state: "failed", failure: expect.stringContaining("is not allowed to impersonate") as string },
    });
  });
});

describe("a pull request that is no longer open", () => {
  test.each(["closed", "merged"] as const)(
    "because it was %s keeps its last preview, with the new state",
    async (state) => {
      const previous = aReport({ pullRequest: key });
      const { run, told, queue, sources } = aPreviewWorld([named("a")], { pullRequest: { state }, previous });
      expect(await run()).toEqual({ kind: "done" });
      expect(told).toEqual([{ ...previous, state }]);
      expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
      expect(sources.merges).toEqual([]);
    },
  );

  test("with another head or base branch than the last preview gets a report about the final ones", async () => {
    const [old, proposed] = ["5".repeat(40), { state: "merged", baseBranch: "release" }] as const;
    const previous = aReport({ pullRequest: key, head: old, earlierHeads: [], state: "working" });
    const { run, told } = aPreviewWorld([named("a")], { pullRequest: proposed, previous });
    expect(await run()).toEqual({ kind: "done" });
    const ended = { state: "merged", head, baseBranch: "release", base: undefined, earlierHeads: [old] };
    const earlierPreviews = [{ head: old, verdict: "superseded before it was compared", at: previous.finishedAt }];
    expect(told).toEqual([{ ...previous, ...ended, earlierPreviews }]);
  });

  test("is written anew, although the rollout has nothing new: its comment may have been edited", async () => {
    const previous = aReport({ pullRequest: key, state: "merged", written: { repoUrls: [], mergedAt: 1_000 } });
    const { run, told } = aPreviewWorld([named("a")], { pullRequest: { state: "merged" }, previous });
    await run();
    expect(told).toMatchObject([{ state: "merged", written: undefined }]);
  });

  test("gets a report even if none was saved, because there may be a comment", async () => {
    const { run, told, queue } = aPreviewWorld([named("a")], { pullRequest: { state: "merged" } });
    expect(await run()).toEqual({ kind: "done" });
    expect(told).toMatchObject([{ state: "merged", pullRequest: key, head, previews: [], finishedAt: startedAt }]);
    expect(queue.requests).toEqual([{ kind: "report", pullRequest: key }]);
  });
});

test("if previews are switched off, earlier requests render nothing", async () => {
  const { run, sources, kluctl, told } = aPreviewWorld([named("a")], { enabled: false });
  expect(await run()).toMatchObject({ kind: "skipped" });
  expect([sources.merges, kluctl.runs, told]).toEqual([[], [], []]);
});

test("a report continues from the previous one", async () => {
  const previous = aReport({ pullRequest: key, head, base: "a".repeat(40), earlierHeads: ["h0"], restarts: 2 });
  const moved = aPreviewWorld([named("a")], { previous: { ...previous, finishedAt: startedAt - 1_000 } });
  await moved.run();
  expect(moved.told).toMatchObject([{ earlierHeads: ["h0"], restarts: 3 }]);
  const pushed = aPreviewWorld([named("a")], { previous, pullRequest: { head: "2".repeat(40) } });
  await pushed.run();
  expect(pushed.told).toMatchObject([{ earlierHeads: [head, "h0"], restarts: 0 }]);
});

describe("a prune that will need confirmation after the merge", () => {
  const remote = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", uid: "u" } });
  const orphan = anObject({ orphan: true, remote });
  const emptied = aResult({ objects: [orphan] });
  const pruneGuard = { percent: 50, fromObjects: 10 };

  test.each([
    ["is told", { prune: true }, { pruneGuard }, { doomed: 1, deployed: 1, empty: true }],
    ["is none where prunes wait for nobody", { prune: true }, {}, undefined],
    ["is none where nothing is pruned", { prune: false }, { pruneGuard }, undefined],
    ["is none where nothing is deployed for real", { prune: true, dryRun: true }, { pruneGuard }, undefined],
    ["is none on a server that deploys nothing", { prune: true }, { pruneGuard, dryRun: true }, undefined],
  ])("%s", async (_name, spec, settings, pruneWaits) => {
    const world = aPreviewWorld([named("prod", { spec })], { settings, kluctl: fakeKluctl({ diff: emptied }) });

    expect(await world.run()).toEqual({ kind: "done" });

    expect(world.previews().map((preview) => preview.pruneWaits)).toEqual([pruneWaits]);
  });
});

test("manifests are stored before the report that they belong to, and only if there is a page to show them", async () => {
  const rendered = '{"data":{"a":"2"}}';
  const diff = { ...aChange, objects: aChange.objects.map((object) => ({ ...object, rendered })) };
  const saved: unknown[] = [];
  let isDown = false;
  const world = aPreviewWorld([named("prod")], {
    kluctl: fakeKluctl({ diff }),
    manifests: {
      save(...stored) {
        saved.push(stored);
        return isDown ? Promise.reject(new Error("Redis is down")) : Promise.resolve();
      },
    },
  });
  expect(await world.run()).toEqual({ kind: "done" });
  const object = { ref: expect.objectContaining({ kind: "ConfigMap" }) as object, text: 'data:\n  a: "2"' };
  expect(saved).toMatchObject([
    [key, { startedAt: world.told.at(-1)?.startedAt, deployments: [{ deployment: "shop/prod", objects: [object] }] }],
  ]);
  expect(JSON.stringify(world.told)).not.toContain("manifests");
  // The report does not depend on them.
  isDown = true;
  expect(await world.run()).toEqual({ kind: "done" });
  expect(world.told.at(-1)?.state).toBe("done");
});
