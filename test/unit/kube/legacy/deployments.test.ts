import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { ApiError } from "../../../../src/errors.ts";
import { deploymentApis } from "../../../../src/apis/apis.ts";
import { createDeployments } from "../../../../src/apis/deployments.ts";
import type { KubeClient } from "../../../../src/kube/client.ts";
import { createSecrets } from "../../../../src/kube/secrets.ts";
import type { RepoId } from "../../../../src/model.ts";
import { silentLog } from "../../../support/fakes.ts";
import { patience } from "../../../support/patience.ts";

type Json = Record<string, unknown>;

const [current, legacy] = ["/apis/gitops.kluctl.io/v1beta1", "/apis/flux.kluctl.io/v1alpha1"];

/** An API server that serves the legacy API only after the test enables it, and records the patches. */
function fakeApi(objects: Json[]) {
  const state = { served: false };
  const patches: { path: string; body: unknown }[] = [];
  const twins = new Map<string, Json>();
  const watches = new Set<PassThrough>();
  const client: Pick<KubeClient, "request" | "list" | "stream"> = {
    request({ method, path, body }) {
      if (method === "PATCH") return Promise.resolve(patches.push({ path, body }));
      if (!path.startsWith(current) && !state.served) return Promise.reject(new ApiError(404, "not found"));
      if (path === legacy) return Promise.resolve({ resources: [{ name: "kluctldeployments" }] });
      const all = path.startsWith(current) ? [...twins.values()] : objects;
      const found = all.find((object) => path.endsWith(`/${(object["metadata"] as { name: string }).name}`));
      return found ? Promise.resolve(found) : Promise.reject(new ApiError(404, "not found"));
    },
    list: (path) => Promise.resolve({ items: path.startsWith(current) ? [] : objects, resourceVersion: "1" }),
    stream({ path, signal }) {
      const stream = new PassThrough();
      if (path.startsWith(current)) watches.add(stream);
      signal.addEventListener("abort", () => stream.destroy());
      return Promise.resolve(stream as unknown as IncomingMessage);
    },
  };
  /** Adds or removes a resource of the current API, with the name of a legacy one. */
  async function setTwin(name: string, isThere: boolean): Promise<void> {
    const object = twin(name);
    if (isThere) twins.set(name, object);
    else twins.delete(name);
    await vi.waitFor(() => expect(watches.size).toBe(1), patience);
    for (const stream of watches) stream.write(`${JSON.stringify({ type: isThere ? "ADDED" : "DELETED", object })}\n`);
  }
  return { state, patches, client: client as KubeClient, setTwin };
}

function twin(name: string): Json {
  const metadata = { namespace: "shop", name, uid: `new-${name}`, resourceVersion: "7", generation: 1 };
  return { metadata, spec: { interval: "5m", source: { git: { url: "https://git.test/org/shop.git" } } } };
}

function resource(name: string, metadata: Json = {}): Json {
  return {
    metadata: { namespace: "shop", name, uid: `old-${name}`, resourceVersion: "5", generation: 1, ...metadata },
    spec: { interval: "5m", source: { url: "https://git.test/org/shop.git" } },
  };
}

function bothOf({ client }: ReturnType<typeof fakeApi>) {
  const deps = { client, secrets: createSecrets({ client }), controllerName: "towline", log: silentLog };
  const both = createDeployments({ ...deps, apis: deploymentApis, lookEveryMs: 10 });
  onTestFinished(() => both.stop());
  const changes: string[] = [];
  both.onChange(({ kind, deployment }) => changes.push(`${kind} ${deployment.uid}`));
  return { both, changes };
}

const key = { namespace: "shop", name: "prod" };

test("the legacy API is found when it is installed, and costs nothing before", async () => {
  const api = fakeApi([resource("prod")]);
  const { both, changes } = bothOf(api);
  await both.start();
  expect([both.all(), both.synced()]).toEqual([[], true]);
  api.state.served = true;
  await vi.waitFor(() => expect(changes).toEqual(["added old-prod"]), patience);
  expect(both.tracking("git.test/org/shop" as RepoId)).toHaveLength(1);
  expect(await both.get(key)).toMatchObject({ uid: "old-prod", apiVersion: "flux.kluctl.io/v1alpha1" });
});

test("a deployment of the newer API replaces the legacy one of the same name, and the legacy one returns without it", async () => {
  const api = fakeApi([resource("prod")]);
  api.state.served = true;
  const { both, changes } = bothOf(api);
  await both.start();
  await vi.waitFor(() => expect(both.all()).toHaveLength(1), patience);
  await api.setTwin("prod", true);
  await vi.waitFor(() => expect(changes).toEqual(["added old-prod", "removed old-prod", "added new-prod"]), patience);
  expect(await both.get(key)).toMatchObject({ uid: "new-prod" });
  await vi.waitFor(
    () =>
      expect(api.patches[0]).toEqual({
        path: "/apis/flux.kluctl.io/v1alpha1/namespaces/shop/kluctldeployments/prod/status",
        body: { status: { readyForMigration: true } },
      }),
    patience,
  );
  await api.setTwin("prod", false);
  await vi.waitFor(() => expect(changes.slice(3)).toEqual(["removed new-prod", "added old-prod"]), patience);
});

test("when a user deletes a replaced legacy deployment, only its finalizer is removed", async () => {
  const finalizers = ["finalizers.flux.kluctl.io", "others.test/one"];
  const leaving = { ...resource("prod", { finalizers, deletionTimestamp: "2026-01-01T00:00:00Z" }) };
  const api = fakeApi([{ ...leaving, status: { readyForMigration: true } }]);
  api.state.served = true;
  const { both } = bothOf(api);
  await both.start();
  await api.setTwin("prod", true);
  await vi.waitFor(
    () =>
      expect(api.patches.at(0)?.body).toEqual({ metadata: { finalizers: ["others.test/one"], resourceVersion: "5" } }),
    patience,
  );
});

test("writes go to the resource that was read, in the format of its API", async () => {
  const annotations = { "reconcile.fluxcd.io/requestedAt": "7" };
  const api = fakeApi([resource("prod", { annotations })]);
  api.state.served = true;
  const { both } = bothOf(api);
  await both.start();
  const older = await both.get(key);
  await api.setTwin("prod", true);
  await both.patchStatus(older!, { observedGeneration: 1, observedCommit: null });
  await both.removeAnnotation(older!, "kluctl.io/request-reconcile", "7");
  await both.setFinalizer(older!, "finalizers.gitops.kluctl.io", true);
  const bodies = api.patches.map(({ body }) => body).filter((body) => !JSON.stringify(body).includes("readyFor"));
  expect(bodies).toEqual([
    { metadata: { resourceVersion: "5" }, status: { observedGeneration: 1, lastAttemptedRevision: null } },
    { status: { lastHandledReconcileAt: "7" } },
    { metadata: { finalizers: ["finalizers.flux.kluctl.io"], resourceVersion: "5" } },
  ]);
});

test("a reconciliation answers only the deploy request that existed when it started", async () => {
  const annotations: Record<string, string> = {};
  const api = fakeApi([resource("prod", { annotations })]);
  api.state.served = true;
  const { both } = bothOf(api);
  await both.start();
  const before = await both.get(key);
  annotations["deploy.flux.kluctl.io/requestedAt"] = "2";
  const after = await both.get(key); // read by the next job, while the first is still in progress
  await both.patchStatus(before!, { observedGeneration: 1 });
  await both.patchStatus(after!, { observedGeneration: 1 });
  expect(api.patches.map(({ body }) => body)).toEqual([
    { metadata: { resourceVersion: "5" }, status: { observedGeneration: 1 } },
    { metadata: { resourceVersion: "5" }, status: { observedGeneration: 1, lastHandledDeployAt: "2" } },
  ]);
});

test("the deployments are not complete before the GitRepositories that they reference are listed", async () => {
  const spec = { interval: "5m", sourceRef: { kind: "GitRepository", name: "shop" } };
  const api = fakeApi([{ ...resource("prod"), spec }]);
  api.state.served = true;
  const listed = Promise.withResolvers<Json[]>();
  const isFlux = (path: string) => path.startsWith("/apis/source.toolkit.fluxcd.io/v1");
  const client: Pick<KubeClient, "request" | "list" | "stream"> = {
    ...api.client,
    request: (asked) =>
      isFlux(asked.path) ? Promise.resolve({ resources: [{ name: "gitrepositories" }] }) : api.client.request(asked),
    list: async (path, ...more) =>
      isFlux(path) ? { items: await listed.promise, resourceVersion: "1" } : api.client.list(path, ...more),
  };
  const { both } = bothOf({ ...api, client: client as KubeClient });
  await both.start();
  await vi.waitFor(() => expect(both.synced()).toBe(false), patience);
  expect(both.all()).toEqual([]);

  const metadata = { namespace: "shop", name: "shop", resourceVersion: "3" };
  listed.resolve([{ metadata, spec: { url: "https://git.test/org/shop.git", ref: { branch: "main" } } }]);
  await vi.waitFor(() => expect(both.synced()).toBe(true), patience);
  expect(both.all()).toMatchObject([{ uid: "old-prod", repo: "git.test/org/shop" }]);
});

test("who asks late is told of what is there, and hands over nothing before this server serves them", async () => {
  const api = fakeApi([resource("prod")]);
  api.state.served = true;
  const { both } = bothOf(api);
  const serves = { is: false };
  await both.start(() => serves.is);
  await vi.waitFor(() => expect(both.all()).toHaveLength(1), patience);
  const late: string[] = [];
  both.onChange(({ kind, deployment }) => late.push(`${kind} ${deployment.uid}`));
  expect(late).toEqual(["added old-prod"]);

  await api.setTwin("prod", true);
  await vi.waitFor(() => expect(late).toContain("added new-prod"), patience);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(api.patches).toEqual([]);
  serves.is = true;
  await vi.waitFor(() => expect(api.patches).not.toEqual([]), patience);
});
