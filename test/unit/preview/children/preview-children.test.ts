/** Pull requests that change the KluctlDeployments in a deployment. */
import { expect, test, vi } from "vitest";
import { parseManifest } from "../../../../src/apis/kluctl/manifest.ts";
import { NeedsMoreError, PrepareError, SourceError, SupersededError } from "../../../../src/errors.ts";
import {
  type CommandResult,
  type GitDeployment,
  annotation,
  type ResultObject,
  type Run,
} from "../../../../src/model.ts";
import type { Report } from "../../../../src/model/report.ts";
import type { FluxRendered } from "../../../../src/ports.ts";
import type { FluxPreviewsDeps } from "../../../../src/preview/flux/compare-flux.ts";
import { describeReport } from "../../../../src/preview/summary.ts";
import { anObject, aResult } from "../../../support/deployments.ts";
import { aFluxResource, fakeFluxPreviews } from "../../../support/flux-previews.ts";
import { aPreviewWorld, aRender, named } from "../../../support/preview.ts";
import { patience } from "../../../support/patience.ts";

const repo = "https://git.example.com/org/shop";
type Fields = Readonly<Record<string, unknown>>;

interface ChildFields {
  spec?: Fields;
  git?: Fields;
  metadata?: Fields;
  status?: Fields;
}

function aChild(name: string, { spec, git, ...rest }: ChildFields = {}): Fields {
  const { metadata, status } = rest;
  return {
    apiVersion: "gitops.kluctl.io/v1beta1",
    kind: "KluctlDeployment",
    metadata: { name, namespace: "teams", ...metadata },
    spec: { interval: "5m", source: { git: { url: repo, path: `teams/${name}`, ...git } }, ...spec },
    ...(status && { status }),
  };
}

const live = (child: Fields): Fields => ({ ...child, metadata: { uid: "uid-1", ...(child["metadata"] as Fields) } });

/** An object of the parent's diff. */
function toObject(
  before: Fields | undefined,
  after: Fields | undefined,
  more: Partial<ResultObject> = {},
): ResultObject {
  const { metadata } = (after ?? before) as { metadata: { name: string; namespace?: string } };
  const { name, namespace } = metadata;
  return anObject({
    ref: {
      group: "gitops.kluctl.io",
      version: "v1beta1",
      kind: "KluctlDeployment",
      name,
      ...(namespace && { namespace }),
    },
    new: before === undefined,
    orphan: after === undefined,
    changes: before && after ? [{ type: "update", jsonPath: "spec", oldValue: "x", newValue: "y" }] : [],
    rendered: after && JSON.stringify(after),
    remote: before && JSON.stringify(before),
    ...more,
  });
}

const settings = (value: string, name = "settings") =>
  aRender({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "teams" }, data: { value } });

interface Options {
  parent?: Partial<GitDeployment["spec"]>;
  deployments?: GitDeployment[];
  /** Other objects of the parent. */
  beside?: ResultObject[];
  render?: (run: Run, signal?: AbortSignal) => CommandResult | Error | Promise<CommandResult>;
  refusal?: string;
  disabled?: boolean;
  flux?: FluxPreviewsDeps;
}

function aRootWorld(children: ResultObject[], options: Options = {}) {
  const { parent, deployments = [], beside = [], refusal, disabled, flux } = options;
  const rendered: Run[] = [];
  const render = options.render ?? ((run: Run) => settings(run.projectDir.startsWith("/base") ? "red" : "blue"));
  const world = aPreviewWorld([named("root", { spec: { prune: true, ...parent } }), ...deployments], {
    flux,
    settings: disabled
      ? {}
      : { children: { refusal, kubernetesVersion: () => Promise.resolve("v1.36.3"), parse: parseManifest } },
    kluctl: {
      diff(run) {
        const isBase = flux !== undefined && run.projectDir.startsWith("/base");
        const hasChildren = run.deployment.name === "root" && !isBase;
        return Promise.resolve(aResult({ objects: hasChildren ? [...children, ...beside] : [] }));
      },
      render(run, _options, signal) {
        rendered.push(run);
        const answer = render(run, signal);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    },
  });
  const shown = () => world.told.at(-1)?.children;
  return { ...world, rendered, shown };
}

const sides = (runs: readonly Run[]) => runs.map(({ projectDir }) => projectDir);
const reasons = (report: Report["children"]) =>
  report?.unshown.map(({ deployment, reason }) => `${deployment}: ${reason}`);

test("a new child is shown as what it would create, a changed one as the effect of its spec, a deleted one as what it deletes", async () => {
  const { run, rendered, shown, told } = aRootWorld([
    toObject(undefined, aChild("added", { spec: { target: "prod", args: { size: 3 }, context: "other-cluster" } })),
    toObject(
      live(aChild("changed", { spec: { args: { size: 1 } } })),
      aChild("changed", { spec: { args: { size: 2 } } }),
    ),
    toObject(
      live(
        aChild("removed", { spec: { delete: true }, status: { targetKey: { clusterId: "c", discriminator: "d" } } }),
      ),
      undefined,
    ),
  ]);
  expect(await run()).toEqual({ kind: "done" });

  expect(sides(rendered)).toEqual([
    "/stubbed/teams/added",
    "/base/teams/changed",
    "/stubbed/teams/changed",
    "/base/teams/removed",
  ]);
  expect(rendered.map(({ args }) => args)).toEqual([{ size: 3 }, { size: 1 }, { size: 2 }, undefined]);
  for (const one of rendered) {
    expect(one).toMatchObject({ cold: true, credentials: { git: [], oci: [], helm: [] }, secrets: [] });
    expect([one.impersonate, one.cluster, one.decryption, one.hosts, one.held, one.context]).toEqual(
      Array(6).fill(undefined),
    );
    // Names of a branch's manifests are neither labels nor parts of paths.
    expect(one.deployment.name).toBe("root");
    expect(one.slot).toBeDefined();
  }
  expect(shown()).toMatchObject({
    previews: [
      {
        action: "new",
        preview: { deployment: { namespace: "teams", name: "added" }, target: "prod", counts: { new: 1 } },
      },
      {
        action: "changed",
        preview: { counts: { changed: 1 }, objects: [{ diff: expect.stringContaining("blue") as string }] },
      },
      { action: "deleted", preview: { counts: { deleted: 1 } } },
    ],
    unshown: [],
    beyond: 0,
  });
  const [report] = told as [Report];
  expect(report.previews.map(({ deployment }) => deployment.name)).toEqual(["root"]);
  const { children: _, ...without } = report;
  expect(describeReport(report)).toBe(describeReport(without));
});

test.each<[string, ResultObject, string]>([
  [
    "whose source is another repository",
    toObject(undefined, aChild("a", { git: { url: "https://git.example.com/org/other" } })),
    "not rendered, because its source is another repository",
  ],
  [
    "whose source is an artifact",
    toObject(undefined, aChild("a", { spec: { source: { oci: { url: "oci://registry.example/shop" } } } })),
    "not rendered, because its source is an OCI artifact",
  ],
  [
    "at a commit",
    toObject(undefined, aChild("a", { git: { ref: { commit: "c".repeat(40) } } })),
    "not rendered, because it is pinned to a commit",
  ],
  [
    "at a branch that does not exist",
    toObject(undefined, aChild("a", { git: { ref: { branch: "nowhere" } } })),
    "not rendered, because its repository has no branch nowhere",
  ],
  [
    "with an invalid spec",
    toObject(undefined, aChild("a", { spec: { interval: "soon" } })),
    'not rendered, because its spec is invalid: spec.interval: "soon" is not a duration; use e.g. 30s, 5m or 1h30m',
  ],
  [
    "with previews switched off",
    toObject(undefined, aChild("a", { metadata: { annotations: { [annotation.preview]: "false" } } })),
    "not rendered, because its annotation disables previews",
  ],
  [
    "whose previews the pull request would switch on",
    toObject(
      live(aChild("a", { metadata: { annotations: { [annotation.preview]: "false" } } })),
      aChild("a", { spec: { args: { version: "2" } } }),
    ),
    "not rendered, because its annotation disables previews",
  ],
  [
    "that is removed without spec.delete",
    toObject(live(aChild("a")), undefined),
    "deleted, but its objects stay in the cluster, because its `spec.delete` is not true",
  ],
  [
    "that is removed while it is suspended",
    toObject(live(aChild("a", { spec: { delete: true, suspend: true } })), undefined),
    "deleted, but its objects stay in the cluster, because it is suspended",
  ],
  [
    "that is removed before it deployed anything",
    toObject(live(aChild("a", { spec: { delete: true } })), undefined),
    "deleted, but its objects stay in the cluster, because nothing was deployed with a discriminator",
  ],
  [
    "of which only the interval changes",
    toObject(live(aChild("a")), aChild("a", { spec: { interval: "1h" } })),
    "only fields change that do not affect what is rendered",
  ],
])("a child %s is not rendered, and the reason is shown", async (_what, object, reason) => {
  const { run, rendered, shown } = aRootWorld([object]);
  expect(await run()).toEqual({ kind: "done" });
  expect(reasons(shown())).toEqual([`teams/a: ${reason}`]);
  expect([shown()?.previews, rendered]).toEqual([[], []]);
});

test.each<[string, Fields]>([
  ["../../etc", { name: "../../etc" }],
  ["an upper-case namespace", { name: "a", namespace: "Teams" }],
  ["no namespace", { name: "a", namespace: undefined }],
  ["a name that is too long", { name: "a".repeat(300) }],
])("a child with %s is not rendered", async (_what, metadata) => {
  const { run, rendered, shown } = aRootWorld([toObject(undefined, aChild("a", { metadata }))]);
  expect(await run()).toEqual({ kind: "done" });
  expect(shown()?.previews ?? []).toEqual([]);
  expect(rendered).toEqual([]);
});

test("a child that the parent does not prune stays", async () => {
  const { run, shown } = aRootWorld([toObject(live(aChild("a", { spec: { delete: true } })), undefined)], {
    parent: { prune: false },
  });
  await run();
  expect(reasons(shown())).toEqual(["teams/a: it stays with its objects, because shop/root does not prune"]);
});

test("labels and annotations of a child are no change of it", async () => {
  const after = aChild("a", { metadata: { labels: { team: "a" } } });
  const { run, rendered, shown } = aRootWorld([toObject(live(aChild("a")), after)]);
  await run();
  expect([shown(), rendered]).toEqual([undefined, []]);
});

test("of a child with a preview of its own, only the effect of the changed spec is shown", async () => {
  const own = named("a", { key: { namespace: "teams", name: "a" }, spec: { source: { path: "teams/a" } as never } });
  const { run, rendered, shown } = aRootWorld(
    [toObject(live(aChild("a", { spec: { args: { size: 1 } } })), aChild("a", { spec: { args: { size: 2 } } }))],
    { deployments: [own] },
  );
  await run();
  expect(sides(rendered)).toEqual(["/stubbed/teams/a", "/stubbed/teams/a"]);
  expect(rendered.map(({ args }) => args)).toEqual([{ size: 1 }, { size: 2 }]);
  expect(shown()?.previews).toMatchObject([{ onlySpec: true, preview: { counts: { changed: 0 } } }]);
});

test("a child whose directory the merge moves is compared with the directory of the base", async () => {
  const own = named("a", { key: { namespace: "teams", name: "a" }, spec: { source: { path: "teams/old" } as never } });
  const { run, rendered, sources } = aRootWorld(
    [toObject(live(aChild("a", { git: { path: "teams/old" } })), aChild("a", { git: { path: "teams/new" } }))],
    { deployments: [own] },
  );
  sources.nextMerge.stubbed = (of, path) => {
    if (of === undefined && path === "teams/old") throw new SourceError("path-not-found", "there is no directory");
  };
  await run();
  expect(sides(rendered)).toEqual(["/base/teams/old", "/stubbed/teams/new"]);
});

test("a child that is moved to another tag is rendered at the commits of both tags", async () => {
  const at = (tag: string) => aChild("a", { git: { ref: { tag } } });
  const { run, rendered, sources, shown } = aRootWorld([toObject(live(at("v1")), at("v2"))], {
    render: (run) => settings(run.projectDir.startsWith("/c1") ? "red" : "blue"),
  });
  Object.assign(sources.refs, { "refs/tags/v1": "c1", "refs/tags/v2": "c2" });
  await run();
  expect(sides(rendered)).toEqual(["/c1/teams/a", "/c2/teams/a"]);
  expect(shown()?.previews).toMatchObject([{ preview: { counts: { changed: 1 } } }]);
});

test("at most ten children are rendered, and the others are counted", async () => {
  const many = Array.from({ length: 13 }, (_, at) => toObject(undefined, aChild(`c${String(at).padStart(2, "0")}`)));
  const { run, rendered, shown } = aRootWorld(many);
  await run();
  expect(rendered).toHaveLength(10);
  expect(shown()?.previews.map(({ preview }) => preview.deployment.name)).toEqual(
    Array.from({ length: 10 }, (_, at) => `c0${at}`),
  );
  expect(shown()?.beyond).toBe(3);
});

test("however long the name of a branch is that a child follows, the reason that quotes it is short", async () => {
  const branch = "x".repeat(1_200_000);
  const { run, shown } = aRootWorld([toObject(undefined, aChild("a", { git: { ref: { branch } } }))]);
  await run();
  expect(shown()?.unshown[0]?.reason).toMatch(/^not rendered, because its repository has no branch x{200,300}… \(/);
  expect(shown()?.unshown[0]?.reason.length).toBeLessThan(350);
});

test("children of children are counted, and not rendered", async () => {
  const { run, rendered, shown } = aRootWorld([toObject(undefined, aChild("a"))], {
    render: () => aRender(aChild("inner"), aChild("other")),
  });
  await run();
  expect(rendered).toHaveLength(1);
  expect(shown()?.previews).toMatchObject([{ children: 2 }]);
});

test("fields that name other objects are listed, and no such object is read", async () => {
  const spec = {
    credentials: { git: [{ host: "git.example.com", secretRef: { name: "login" } }] },
    decryption: { provider: "sops", secretRef: { name: "keys" } },
    kubeConfig: { secretRef: { name: "remote" } },
    serviceAccountName: "deployer",
  };
  const { run, rendered, shown } = aRootWorld([toObject(undefined, aChild("a", { spec }))]);
  await run();
  expect(shown()?.previews[0]?.unread).toEqual([
    "spec.credentials",
    "spec.decryption",
    "spec.kubeConfig",
    "spec.serviceAccountName",
  ]);
  expect(rendered).toMatchObject([{ credentials: { git: [] }, secrets: [] }]);
});

test.each<[string, Error, string, "render" | "run"]>([
  ["is broken", new PrepareError("deploy.yml:14: 'size' is undefined"), "deploy.yml:14", "render"],
  ["needs the cluster", new NeedsMoreError("cluster", "vars"), "cannot be rendered without the cluster", "run"],
  ["fails in kluctl", new Error("kluctl crashed"), "kluctl crashed", "run"],
])("a child that %s says so, and the preview is complete without it", async (_what, error, words, failed) => {
  const { run, shown, told } = aRootWorld([toObject(undefined, aChild("a")), toObject(undefined, aChild("b"))], {
    render: ({ projectDir }) => (projectDir.endsWith("/a") ? error : settings("blue")),
  });
  expect(await run()).toEqual({ kind: "done" });
  expect(shown()?.previews).toMatchObject([
    { preview: { state: "failed", failed, failure: expect.stringContaining(words) as string } },
    { preview: { state: "done", counts: { new: 1 } } },
  ]);
  expect(told.at(-1)).toMatchObject({ state: "done", mendable: undefined });
});

test("a value of the parent's Secrets is masked in its children, in their objects, errors and targets", async () => {
  const secret = "correct-horse-battery";
  const data = { password: Buffer.from(secret).toString("base64") };
  const login = { apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: "shop" }, data };
  const beside = aRender(login).objects.map((object) => ({ ...object, new: true }));
  const args = { password: secret };
  const { run, told } = aRootWorld(
    [
      toObject(undefined, aChild("a", { spec: { args, target: secret } })),
      toObject(undefined, aChild("b", { spec: { args } })),
    ],
    {
      beside,
      render: ({ projectDir }) => (projectDir.endsWith("/a") ? settings(secret) : new PrepareError(`no ${secret}`)),
    },
  );
  await run();
  expect(told.at(-1)?.children?.previews).toHaveLength(2);
  expect(JSON.stringify(told)).not.toContain(secret);
});

test("nothing is rendered where previews are not isolated, and the reason is shown", async () => {
  const { run, rendered, shown } = aRootWorld([toObject(undefined, aChild("a"))], { refusal: "nothing is isolated" });
  await run();
  expect(reasons(shown())).toEqual(["teams/a: not rendered, because nothing is isolated"]);
  expect(rendered).toEqual([]);
});

test("a child that the base branch adds as well is not the pull request's", async () => {
  const { run, rendered, shown, sources } = aRootWorld([toObject(undefined, aChild("a"))]);
  sources.nextMerge.inBase = true;
  await run();
  expect([shown(), rendered]).toEqual([undefined, []]);
});

test("deployments are shown before their children if these take long, with the time at which they were compared", async () => {
  const gate = Promise.withResolvers<void>();
  const { run, rendered, told, time, twoSecondsPass } = aRootWorld([toObject(undefined, aChild("a"))], {
    render: () => gate.promise.then(() => settings("blue")),
  });
  const running = run();
  await vi.waitFor(() => expect(rendered).toHaveLength(1), patience);
  const comparedAt = time.now;
  time.now += 2_000;
  await twoSecondsPass();
  await vi.waitFor(() => expect(told).toHaveLength(1), patience);
  expect(told).toMatchObject([{ state: "done", children: { previews: [{ preview: { state: "working" } }] } }]);
  gate.resolve();
  expect(await running).toEqual({ kind: "done" });
  expect(told[1]).toMatchObject({ children: { previews: [{ preview: { state: "done" } }] } });
  expect(told.map(({ finishedAt }) => finishedAt)).toEqual([comparedAt, comparedAt]);
});

test("what Flux applies is part of the result, for which the children wait", async () => {
  const gate = Promise.withResolvers<readonly FluxRendered[]>();
  const { deps } = fakeFluxPreviews([aFluxResource("apps")], { base: {}, merged: {} });
  const asked: string[] = [];
  deps.renderer.render = ({ root }) => (asked.push(root), gate.promise);
  const { run, rendered, told, twoSecondsPass, sources } = aRootWorld([toObject(undefined, aChild("a"))], {
    flux: deps,
  });
  sources.nextMerge.inBase = true;
  const running = run();
  await vi.waitFor(() => expect(asked).toHaveLength(2), patience);
  await twoSecondsPass();
  await vi.waitFor(() => expect(told).toMatchObject([{ state: "working" }]), patience);
  expect(rendered).toEqual([]);
  gate.resolve([{ objects: [], files: [] }]);
  expect(await running).toEqual({ kind: "done" });
  expect(told.at(-1)).toMatchObject({ state: "done", children: { previews: [{ preview: { state: "done" } }] } });
});

test("a newer head ends the rendering of children, and the merge is released", async () => {
  const superseding = new AbortController();
  const { run, rendered, told, sources } = aRootWorld(
    [toObject(undefined, aChild("a")), toObject(undefined, aChild("b"))],
    {
      render: (_run, signal) =>
        new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(new Error("killed")))),
    },
  );
  const running = run({ signal: superseding.signal });
  await vi.waitFor(() => expect(rendered).toHaveLength(1), patience);
  superseding.abort(new SupersededError("a newer head"));
  expect(await running).toMatchObject({ kind: "skipped", why: "superseded" });
  expect(rendered).toHaveLength(1);
  expect(told).toEqual([]);
  expect(sources.released).toHaveLength(1);
});

test("without the setting, KluctlDeployments are objects like all others", async () => {
  const { run, rendered, shown, previews } = aRootWorld([toObject(undefined, aChild("a"))], { disabled: true });
  await run();
  expect([shown(), rendered]).toEqual([undefined, []]);
  expect(previews()).toMatchObject([{ counts: { new: 1 } }]);
});
