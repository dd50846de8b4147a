import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { createFluxDeployments } from "../../../src/apis/flux/deployments.ts";
import { parseKustomization } from "../../../src/apis/flux/kustomization.ts";
import { createFluxSources } from "../../../src/apis/flux/sources.ts";
import { parseFluxSource } from "../../../src/apis/flux/git-repository.ts";
import { ApiError } from "../../../src/errors.ts";
import type { KubeClient, KubeRequest } from "../../../src/kube/client.ts";
import { keyText, type RepoId } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";

const commit = "1".repeat(40);
const repo = "git.example.com/org/shop" as RepoId;

function aResource(name: string, { spec = {}, status = {}, annotations = {}, namespace = "flux-system" } = {}) {
  return {
    metadata: { namespace, name, uid: `uid-${name}`, annotations },
    spec: { url: "https://git.example.com/org/shop.git", ref: { branch: "main" }, ...spec },
    status,
  };
}

/** An API server with GitRepositories, while their definition is there. */
function useCluster() {
  const cluster = {
    served: false,
    /** The status with which the API server refuses to name its kinds, and to list, if it does. */
    refuses: { kinds: undefined as number | undefined, lists: undefined as number | undefined },
    items: [] as unknown[],
    patches: [] as KubeRequest[],
    lists: [] as string[],
  };
  const refuse = (status: number) => Promise.reject(new ApiError(status, "refused"));
  const streams = new Set<PassThrough>();
  const missing = () => Promise.reject(new ApiError(404, "not found"));
  const client = {
    request(request: KubeRequest) {
      if (request.method === "PATCH") return Promise.resolve(void cluster.patches.push(request));
      if (cluster.refuses.kinds !== undefined) return refuse(cluster.refuses.kinds);
      if (!cluster.served) return missing();
      const names = ["gitrepositories", "gitrepositories/status", "kustomizations"];
      return Promise.resolve({ resources: names.map((name) => ({ name })) });
    },
    list(path: string) {
      cluster.lists.push(path);
      if (cluster.refuses.lists !== undefined) return refuse(cluster.refuses.lists);
      return cluster.served ? Promise.resolve({ items: cluster.items, resourceVersion: "1" }) : missing();
    },
    stream({ signal }: { signal: AbortSignal }) {
      const stream = new PassThrough();
      streams.add(stream);
      signal.addEventListener("abort", () => stream.destroy(new Error("aborted")), { once: true });
      return Promise.resolve(stream as unknown as IncomingMessage);
    },
  } as unknown as KubeClient;
  const emit = (type: string, object: unknown) => {
    for (const stream of streams) if (!stream.destroyed) stream.write(`${JSON.stringify({ type, object })}\n`);
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
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/shop"]));
  api.cluster.served = false;
  await vi.waitFor(() => expect(names()).toEqual([]));
  api.cluster.served = true;
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/shop"]));
});

test("they are known once they are listed, not while the API server has trouble", async () => {
  const api = useCluster();
  api.cluster.served = true;
  api.cluster.refuses = { kinds: 500, lists: 500 };
  const sources = createSources(api);
  expect(sources.synced()).toBe(false);
  const started = sources.start();
  api.cluster.refuses.kinds = undefined;
  await vi.waitFor(() => expect(api.cluster.lists.length).toBeGreaterThan(1));
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
  await vi.waitFor(() => expect(sources.synced()).toBe(true));
});

test("the index follows what is added, moved to another repository, edited into nonsense, and deleted", async () => {
  const api = useCluster();
  api.cluster.served = true;
  const { sources, names } = await useSources(api);
  api.emit("ADDED", aResource("a"));
  api.emit("ADDED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/a", "flux-system/b"]));
  api.emit("MODIFIED", aResource("a", { spec: { url: "ssh://git@git.example.com/org/other" } }));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/b"]));
  expect(sources.following("git.example.com/org/other" as RepoId)).toHaveLength(1);
  api.emit("MODIFIED", aResource("b", { spec: { url: "not a URL" } }));
  await vi.waitFor(() => expect(names()).toEqual([]));
  api.emit("MODIFIED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual(["flux-system/b"]));
  api.emit("DELETED", aResource("b"));
  await vi.waitFor(() => expect(names()).toEqual([]));
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
    metadata: { namespace: "shop", name: "apps", uid: "u", generation: 1 },
    spec: { sourceRef: { kind: "GitRepository", name: "shop" } },
    status: applied && { lastAppliedRevision: `main@sha1:${applied}` },
  });
  api.cluster.items = [resource()];
  api.cluster.served = true;
  await vi.waitFor(() => expect(deployments.all()).toHaveLength(1));
  expect(new Set(api.cluster.lists)).toEqual(
    new Set(["/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/shop/kustomizations"]),
  );
  api.emit("MODIFIED", resource(commit));
  await vi.waitFor(() => expect(changes).toEqual(["- -", `- ${commit}`]));
  api.cluster.served = false;
  await vi.waitFor(() => expect(deployments.all()).toEqual([]));
  expect(changes.at(-1)).toBe(`${commit} -`);
  expect(api.cluster.patches).toEqual([]);
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
