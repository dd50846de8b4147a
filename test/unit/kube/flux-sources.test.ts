import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { createFluxDeployments } from "../../../src/apis/flux/deployments.ts";
import { parseHelmRelease } from "../../../src/apis/flux/helm-release.ts";
import { parseKustomization } from "../../../src/apis/flux/kustomization.ts";
import { createFluxSources } from "../../../src/apis/flux/sources.ts";
import { parseFluxSource } from "../../../src/apis/flux/git-repository.ts";
import { ApiError } from "../../../src/errors.ts";
import type { KubeClient, KubeRequest } from "../../../src/kube/client.ts";
import { keyText, type RepoId } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

const commit = "1".repeat(40);
const repo = "git.example.com/org/shop" as RepoId;

function aResource(name: string, { spec = {}, status = {}, annotations = {}, namespace = "flux-system" } = {}) {
  return {
    metadata: { namespace, name, uid: `uid-${name}`, annotations },
    spec: { url: "https://git.example.com/org/shop.git", ref: { branch: "main" }, ...spec },
    status,
  };
}

/** By the kind of the resource; without one, it is a GitRepository. */
function pluralOf(resource: unknown): string {
  const { kind = "GitRepository" } = resource as { kind?: string };
  return kind === "GitRepository" ? "gitrepositories" : `${kind.toLowerCase()}s`;
}

/** An API server with resources of Flux, while their definitions are there. */
function useCluster() {
  const cluster = {
    served: false,
    /** The status with which the API server refuses to name its kinds, and to list, if it does. */
    refuses: { kinds: undefined as number | undefined, lists: undefined as number | undefined },
    items: [] as unknown[],
    /** The HelmRelease `web`, as the API server has it. */
    found: undefined as unknown,
    patches: [] as KubeRequest[],
    lists: [] as string[],
  };
  const refuse = (status: number) => Promise.reject(new ApiError(status, "refused"));
  const streams = new Map<PassThrough, string>();
  const missing = () => Promise.reject(new ApiError(404, "not found"));
  const client = {
    request(request: KubeRequest) {
      if (request.method === "PATCH") return Promise.resolve(void cluster.patches.push(request));
      if (cluster.refuses.kinds !== undefined) return refuse(cluster.refuses.kinds);
      if (!cluster.served) return missing();
      if (request.path?.endsWith("/helmreleases/web"))
        return cluster.found === undefined ? missing() : Promise.resolve(cluster.found);
      const names = ["gitrepositories", "gitrepositories/status", "kustomizations", "helmreleases", "helmcharts"];
      return Promise.resolve({ resources: names.map((name) => ({ name })) });
    },
    list(path: string) {
      cluster.lists.push(path);
      if (cluster.refuses.lists !== undefined) return refuse(cluster.refuses.lists);
      const items = cluster.items.filter((one) => pluralOf(one) === path.split("/").at(-1));
      return cluster.served ? Promise.resolve({ items, resourceVersion: "1" }) : missing();
    },
    stream({ signal, path }: { signal: AbortSignal; path: string }) {
      const stream = new PassThrough();
      streams.set(stream, path.split("/").at(-1) ?? "");
      signal.addEventListener("abort", () => stream.destroy(new Error("aborted")), { once: true });
      return Promise.resolve(stream as unknown as IncomingMessage);
    },
  } as unknown as KubeClient;
  const emit = (type: string, object: unknown) => {
    for (const [stream, plural] of streams) {
      if (!stream.destroyed && plural === pluralOf(object)) stream.write(`${JSON.stringify({ type, object })}\n`);
    }
  };
  return { cluster, client, emit };
}

function createSources({ client }: ReturnType<typeof useCluster>, namespaces: string[] = []) {
  const sources = createFluxSources({ client, namespaces, log: silentLog, lookEveryMs: 20, retryMs: 10 });
  onTestFinished(() => sources.stop());
  return sources;
}

async function useSources(api: ReturnType<typeof useCluster>, namespaces: string[] = []) {
  const sources = createSources(api, namespaces);
  await sources.start();
  return { sources, names: () => sources.following(repo).map(({ key }) => keyText(key)) };
}

test("the definition may appear and vanish while the server runs", async () => {
  const api = useCluster();
  const { names } = await useSources(api);
  expect(names()).toEqual([]);
  api.cluster.items = [aResource("shop")];
  api.cluster.served = true;
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/shop"]), patience);
  api.cluster.served = false;
  await vi.waitFor(() => expect(names()).toEqual([]), patience);
  api.cluster.served = true;
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/shop"]), patience);
});

test("they are known once they are listed, not while the API server has trouble", async () => {
  const api = useCluster();
  api.cluster.served = true;
  api.cluster.refuses = { kinds: 500, lists: 500 };
  const sources = createSources(api);
  expect(sources.synced()).toBe(false);
  const started = sources.start();
  api.cluster.refuses.kinds = undefined;
  await vi.waitFor(() => expect(api.cluster.lists.length).toBeGreaterThan(1), patience);
  expect(sources.synced()).toBe(false);
  api.cluster.refuses.lists = undefined;
  await started;
  expect(sources.synced()).toBe(true);
});

test.each([
  ["definition", { served: false }],
  ["right to look for the definition", { refuses: { kinds: 403, lists: undefined } }],
  ["right to list them", { refuses: { kinds: undefined, lists: 403 } }],
])("without the %s there is nothing to wait for", async (_, state) => {
  const api = useCluster();
  Object.assign(api.cluster, { served: true }, state);
  const sources = createSources(api);
  void sources.start();
  await vi.waitFor(() => expect(sources.synced()).toBe(true), patience);
});

test("the index follows what is added, moved to another repository, edited into nonsense, and deleted", async () => {
  const api = useCluster();
  api.cluster.served = true;
  const { sources, names } = await useSources(api);
  api.emit("ADDED", aResource("a"));
  api.emit("ADDED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/a", "flux-system/b"]), patience);
  api.emit("MODIFIED", aResource("a", { spec: { url: "ssh://git@git.example.com/org/other" } }));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/b"]), patience);
  expect(sources.following("git.example.com/org/other" as RepoId)).toHaveLength(1);
  api.emit("MODIFIED", aResource("b", { spec: { url: "not a URL" } }));
  await vi.waitFor(() => expect(names()).toEqual([]), patience);
  api.emit("MODIFIED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/b"]), patience);
  api.emit("DELETED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual([]), patience);
});

test("only the configured namespaces are watched", async () => {
  const api = useCluster();
  api.cluster.served = true;
  await useSources(api, ["shop", "blog"]);
  const path = (namespace: string) => `/apis/source.toolkit.fluxcd.io/v1/namespaces/${namespace}/gitrepositories`;
  expect(api.cluster.lists).toEqual([path("shop"), path("blog")]);
});

test("a request writes one annotation and nothing else", async () => {
  const api = useCluster();
  api.cluster.served = true;
  const { sources } = await useSources(api);
  await sources.requestFetch({ namespace: "flux-system", name: "shop" }, "2026-01-01T00:00:00.000Z");
  expect(api.cluster.patches).toEqual([
    {
      method: "PATCH",
      path: "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/shop",
      query: { fieldManager: "towline" },
      body: { metadata: { annotations: { "reconcile.fluxcd.io/requestedAt": "2026-01-01T00:00:00.000Z" } } },
    },
  ]);
});

test("Kustomizations are known while their definition is there, in the configured namespaces, with every change", async () => {
  const api = useCluster();
  const deployments = createFluxDeployments({
    ...{ client: api.client, namespaces: ["shop"], log: silentLog, lookEveryMs: 20, retryMs: 10 },
  });
  onTestFinished(() => deployments.stop());
  const changes: string[] = [];
  deployments.onChange((before, after) => changes.push(`${before?.applied ?? "-"} ${after?.applied ?? "-"}`));
  await deployments.start();
  expect([deployments.synced(), deployments.all()]).toEqual([true, []]);
  const resource = (applied?: string) => ({
    kind: "Kustomization",
    metadata: { namespace: "shop", name: "apps", uid: "u", generation: 1 },
    spec: { sourceRef: { kind: "GitRepository", name: "shop" } },
    status: applied && { lastAppliedRevision: `main@sha1:${applied}` },
  });
  api.cluster.items = [resource()];
  api.cluster.served = true;
  await vi.waitFor(() => expect(deployments.all()).toHaveLength(1), patience);
  expect(new Set(api.cluster.lists)).toEqual(
    new Set([
      "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/shop/kustomizations",
      "/apis/helm.toolkit.fluxcd.io/v2/namespaces/shop/helmreleases",
      "/apis/source.toolkit.fluxcd.io/v1/namespaces/shop/helmcharts",
    ]),
  );
  api.emit("MODIFIED", resource(commit));
  await vi.waitFor(() => expect(changes).toEqual(["- -", `- ${commit}`]), patience);
  api.cluster.served = false;
  await vi.waitFor(() => expect(deployments.all()).toEqual([]), patience);
  expect(changes.at(-1)).toBe(`${commit} -`);
  expect(api.cluster.patches).toEqual([]);
});

test("Kustomizations are known although HelmReleases cannot be listed", async () => {
  const api = useCluster();
  api.cluster.served = true;
  const list = (path: string) =>
    path.endsWith("/helmreleases") ? Promise.reject(new ApiError(500, "conversion failed")) : api.client.list(path);
  const deployments = createFluxDeployments({ client: { ...api.client, list }, namespaces: [], log: silentLog });
  onTestFinished(() => deployments.stop());
  void deployments.start();
  await vi.waitFor(() => expect(deployments.synced("Kustomization")).toBe(true), patience);
  expect(deployments.synced()).toBe(false);
});

test("a HelmRelease is known with the chart that was built for it, and read again from the API server", async () => {
  const api = useCluster();
  api.cluster.served = true;
  const release = {
    kind: "HelmRelease",
    metadata: { namespace: "shop", name: "web", uid: "r", generation: 1 },
    spec: { chartRef: { kind: "HelmChart", name: "web", namespace: "charts" } },
  };
  const sourceRef = { kind: "GitRepository", name: "charts" };
  const chart = (status?: object) => ({
    ...{ kind: "HelmChart", metadata: { namespace: "charts", name: "web", uid: "c", generation: 2 } },
    ...{ spec: { sourceRef }, status },
  });
  api.cluster.items = [release, chart()];
  const deployments = createFluxDeployments({ client: api.client, namespaces: [], log: silentLog });
  onTestFinished(() => deployments.stop());
  const changes: unknown[] = [];
  deployments.onChange((_, after) => changes.push(after?.chart?.version));
  await deployments.start();
  const source = { namespace: "charts", name: "charts" };
  expect(deployments.all()).toMatchObject([{ kind: "HelmRelease", source, chart: { source, commit: undefined } }]);
  const ready = (status: string) => [{ type: "Ready", status }];
  const revision = { observedSourceArtifactRevision: `main@sha1:${commit}`, artifact: { revision: "1.0.1" } };
  for (const [status, version] of [
    [{ ...revision, observedGeneration: 2, conditions: ready("Unknown") }, undefined],
    [{ ...revision, observedGeneration: 1, conditions: ready("True") }, undefined],
    [{ ...revision, observedGeneration: 2, conditions: ready("True") }, "1.0.1"],
  ] as const) {
    changes.length = 0;
    api.emit("MODIFIED", chart(status));
    await vi.waitFor(() => expect(changes).toEqual([version]), patience);
  }
  expect(deployments.all()).toMatchObject([{ chart: { commit, version: "1.0.1" } }]);
  api.cluster.found = { ...release, metadata: { ...release.metadata, generation: 2 } };
  const key = { namespace: "shop", name: "web" };
  const again = await deployments.read({ kind: "HelmRelease", key });
  expect(again).toMatchObject({ generation: 2, chart: { commit } });
  api.cluster.found = undefined;
  expect(await deployments.read({ kind: "HelmRelease", key })).toBeUndefined();
});

test("what is read of a HelmRelease", () => {
  const label = "kustomize.toolkit.fluxcd.io";
  const labels = { [`${label}/name`]: "apps", [`${label}/namespace`]: "flux-system" };
  const resource = (spec: unknown, more: object = {}, status?: unknown) => ({
    metadata: { namespace: "shop", name: "web", uid: "u", generation: 1, ...more },
    ...{ spec, status },
  });
  const git = { chart: { spec: { chart: "./web", sourceRef: { kind: "GitRepository", name: "shop" } } } };
  const status = {
    helmChart: "shop/shop-web",
    lastAttemptedRevision: "1.0.1",
    history: [
      { status: "failed", lastDeployed: "2026-01-02T00:00:00Z" },
      { status: "deployed", lastDeployed: "2026-01-01T00:00:00Z" },
    ],
  };
  expect(parseHelmRelease(resource(git, { labels }, status))).toMatchObject({
    ...{ kind: "HelmRelease", source: { namespace: "shop", name: "shop" }, path: "./web", attemptedVersion: "1.0.1" },
    owner: { namespace: "flux-system", name: "apps" },
    chartKey: { namespace: "shop", name: "shop-web" },
    appliedAt: Date.parse("2026-01-01T00:00:00Z"),
  });
  const helm = {
    chart: { spec: { chart: "web", sourceRef: { kind: "HelmRepository", name: "charts" } } },
    suspend: true,
  };
  const read = parseHelmRelease(resource(helm, { labels: { [`${label}/name`]: "apps" } }, { helmChart: "nonsense" }));
  expect(read).toMatchObject({ source: undefined, owner: undefined, chartKey: undefined, suspended: true });
  const oci = { chartRef: { kind: "OCIRepository", name: "web" }, chart: 7 };
  expect(parseHelmRelease(resource(oci))).toMatchObject({ source: undefined, chartKey: undefined, ready: undefined });
  for (const bad of [undefined, {}, resource(undefined), resource({}, { name: "" })])
    expect(parseHelmRelease(bad), JSON.stringify(bad)).toBeUndefined();
});

test("what is read of a Kustomization", () => {
  const resource = (spec: object, status?: unknown) => ({
    metadata: { namespace: "shop", name: "apps", uid: "u", generation: 3 },
    spec: { sourceRef: { kind: "GitRepository", name: "shop" }, ...spec },
    status,
  });
  const revision = (name: string) => `${name}@sha1:${commit}`;
  const message = `Fetching manifests for revision ${revision("refs/pull/7/head")} with a timeout of 5m0s`;
  const read = parseKustomization(
    resource(
      { sourceRef: { kind: "GitRepository", name: "shop", namespace: "flux-system" }, suspend: true, path: "./apps" },
      {
        observedGeneration: 2,
        conditions: [
          { type: "Reconciling", status: "True", reason: "Progressing", message, observedGeneration: 3 },
          { type: "Ready", status: "Unknown", reason: "Progressing", message: "Reconciliation in progress" },
          { type: "Healthy", status: "maybe" },
          "nonsense",
        ],
        ...{ lastAttemptedRevision: revision("main"), lastAppliedRevision: "latest@sha256:abc" },
        history: [
          { firstReconciled: "2026-01-02T00:00:00Z", lastReconciledStatus: "HealthCheckFailed" },
          { firstReconciled: "2026-01-01T00:00:00Z", lastReconciledStatus: "ReconciliationSucceeded" },
        ],
      },
    ),
  );
  expect(read).toMatchObject({
    source: { namespace: "flux-system", name: "shop" },
    ...{ generation: 3, observedGeneration: 2, suspended: true, path: "./apps", isStalled: false },
    ...{ attempting: commit, attempted: commit, applied: undefined, appliedAt: Date.parse("2026-01-01T00:00:00Z") },
    ready: { status: "Unknown", reason: "Progressing" },
  });
  const own = { namespace: "shop", name: "shop" };
  expect(parseKustomization(resource({}))).toMatchObject({ source: own, suspended: false, attempting: undefined });
  expect(parseKustomization(resource({}, "nonsense"))).toMatchObject({ source: own, ready: undefined });
  expect(parseKustomization(resource({}, { conditions: {}, history: 7 }))).toMatchObject({ source: own });
  expect(parseKustomization(resource({ sourceRef: { kind: "Bucket", name: "b" } }))?.source).toBeUndefined();
  for (const bad of [undefined, {}, { metadata: {} }, resource({ sourceRef: undefined })])
    expect(parseKustomization(bad), JSON.stringify(bad)).toBeUndefined();
});

test("what is read of a resource", () => {
  const read = parseFluxSource(
    aResource("shop", {
      spec: { suspend: true, ref: { branch: "", semver: "1.x" } },
      annotations: { "reconcile.fluxcd.io/requestedAt": "b", "towline.dev/webhooks": "false" },
      status: { artifact: { revision: `v1.2.0@sha1:${commit}` }, lastHandledReconcileAt: "a" },
    }),
  );
  expect(read).toMatchObject({
    repo,
    ref: { semver: "1.x" },
    suspended: true,
    webhooks: false,
    commit,
    isRequested: true,
  });
  expect(read?.ref.branch).toBeUndefined();
  const handled = aResource("shop", {
    annotations: { "reconcile.fluxcd.io/requestedAt": "a" },
    status: { lastHandledReconcileAt: "a", artifact: { revision: "sha256:abc" } },
  });
  expect(parseFluxSource(handled)).toMatchObject({ isRequested: false, commit: undefined, webhooks: true });
  for (const revision of [`main/${commit}`, `refs/pull/7/head@sha1:${commit}`, `latest@sha256:${"1".repeat(64)}`])
    expect(parseFluxSource(aResource("shop", { status: { artifact: { revision } } }))?.commit, revision).toMatch(
      /^1+$/,
    );
  for (const bad of [
    undefined,
    {},
    { metadata: {} },
    aResource("shop", { spec: { url: "/local/path" } }),
    aResource(""),
  ])
    expect(parseFluxSource(bad), JSON.stringify(bad)).toBeUndefined();
});
