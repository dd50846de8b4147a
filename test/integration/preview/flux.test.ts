/** What Flux would apply, compared with a real API server through the proxy that lets nothing be written. */
import { type KubernetesObject, PatchStrategy } from "@kubernetes/client-node";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { createApiProxy } from "../../../src/api-proxy/api-proxy.ts";
import type { JsonObject } from "../../../src/kit/json.ts";
import { createApiLogins } from "../../../src/kube/api-logins.ts";
import { createKubeClient } from "../../../src/kube/client.ts";
import { createPreviewClusters } from "../../../src/kube/preview-clusters.ts";
import { installFlux } from "../../support/older-api.ts";
import { aFluxResource, fakeFluxPreviews, ownedBy } from "../../support/flux-previews.ts";
import { aPreviewWorld, base } from "../../support/preview.ts";
import { whenMay } from "../../support/accounts.ts";
import { useCluster, useFiles } from "../../support/world.ts";
import { useFluxRenderer } from "../../support/flux-renderer.ts";
import { renderComment } from "../../../src/comment/comment.ts";
import type { TestCluster } from "../../support/world-cluster.ts";

const account = "dry-run";

/** The account may do everything in the namespace, so that only the proxy keeps it from writing. */
async function useAccount(cluster: TestCluster): Promise<void> {
  const rbac = "rbac.authorization.k8s.io";
  const { namespace } = cluster;
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account } });
  await cluster.create({
    ...{ apiVersion: `${rbac}/v1`, kind: "RoleBinding", metadata: { name: account } },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "admin" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  } as KubernetesObject);
  await whenMay(cluster, account, [{ namespace, verb: "patch", resource: "services" }]);
}

/** Gives the account a right that the role `admin` does not have. */
async function allow(cluster: TestCluster, rule: { apiGroups: string[]; resources: string[] }): Promise<void> {
  const rbac = "rbac.authorization.k8s.io";
  const { namespace } = cluster;
  const metadata = { name: `${account}-more` };
  const rules = [{ ...rule, verbs: ["get", "create", "patch"] }];
  await cluster.create({ apiVersion: `${rbac}/v1`, kind: "Role", metadata, rules } as KubernetesObject);
  await cluster.create({
    ...{ apiVersion: `${rbac}/v1`, kind: "RoleBinding", metadata },
    roleRef: { apiGroup: rbac, kind: "Role", ...metadata },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  } as KubernetesObject);
  const [group, resource] = [rule.apiGroups[0] ?? "", rule.resources[0] ?? ""];
  await whenMay(cluster, account, [{ namespace, verb: "patch", group, resource }]);
}

async function useFlux(
  renders: (of: Objects) => Parameters<typeof fakeFluxPreviews>[1],
  inventory: readonly string[] = [],
  spec: JsonObject = {},
) {
  const cluster = await useCluster();
  await useAccount(cluster);
  const objects = objectsIn(cluster.namespace);
  const entries = inventory.map((name) => objects.configMap(name, {}));
  const resource = aFluxResource("apps", { namespace: cluster.namespace, applied: base, inventory: entries, spec });
  const flux = fakeFluxPreviews([resource], renders(objects));
  const { kubeconfig } = cluster;
  const client = createKubeClient({ kubeconfig });
  const logins = createApiLogins({ kubernetes: { kubeconfig }, client, allowServerLogin: () => false });
  const proxy = createApiProxy({ login: (run) => logins.login(run), log: pino({ enabled: false }) });
  onTestFinished(async () => {
    await proxy.close();
    logins.close();
    client.close();
  });
  const clusters = createPreviewClusters({ open: (run) => proxy.open(run) });
  const world = aPreviewWorld([], { flux: { ...flux.deps, clusters }, settings: { serviceAccount: account } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [] };
  return { ...world, flux, cluster, objects };
}

type Objects = ReturnType<typeof objectsIn>;

function objectsIn(namespace: string) {
  const metadata = (name: string) => ({ name, namespace });
  const own = <T extends JsonObject>(object: T) => ownedBy("apps", object, namespace);
  return {
    configMap: (name: string, data: JsonObject) =>
      own({ apiVersion: "v1", kind: "ConfigMap", metadata: metadata(name), data }),
    secret: (password: string) =>
      own({ apiVersion: "v1", kind: "Secret", metadata: metadata("login"), stringData: { password, user: "ann" } }),
    service: (port: number, clusterIP?: string) =>
      own({
        ...{ apiVersion: "v1", kind: "Service", metadata: metadata("web") },
        spec: { selector: { app: "web" }, ports: [{ port, protocol: "TCP" }], ...(clusterIP && { clusterIP }) },
      }),
    unknown: own({ apiVersion: "example.com/v1", kind: "Thing", metadata: metadata("one") }),
  };
}

/** As Flux has applied them. */
const apply = async ({ cluster }: { cluster: TestCluster }, ...those: readonly JsonObject[]) => {
  for (const one of those)
    await cluster.objects.patch(
      one as KubernetesObject,
      undefined,
      undefined,
      "kustomize-controller",
      true,
      PatchStrategy.ServerSideApply,
    );
};

test("the API server says what would change, defaults included, and nothing is written", async () => {
  const world = await useFlux(
    ({ configMap, secret, service }) => ({
      base: {
        apps: [
          configMap("settings", { level: "1" }),
          service(80),
          secret("old-horse-battery"),
          configMap("gone", { a: "b" }),
        ],
      },
      merged: {
        apps: [
          configMap("settings", { level: "2" }),
          service(8080),
          secret("new-horse-battery"),
          configMap("added", { a: "b" }),
        ],
      },
    }),
    ["gone"],
  );
  const { configMap, secret, service } = world.objects;
  await apply(
    world,
    configMap("settings", { level: "1" }),
    service(80),
    secret("old-horse-battery"),
    configMap("gone", { a: "b" }),
  );

  const metadata = { name: "settings" };
  await world.cluster.patch({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata,
    data: { "by-hand": "x" },
  } as KubernetesObject);

  expect(await world.run()).toEqual({ kind: "done" });

  const [preview] = world.previews();
  expect(preview).toMatchObject({ state: "done", counts: { changed: 3, new: 1, deleted: 1, errors: 0, warnings: 0 } });
  const objectOf = (kind: string, name: string) =>
    preview?.objects.find(({ ref }) => ref.kind === kind && ref.name === name);
  // A field of another manager stays, as with Flux.
  expect(objectOf("ConfigMap", "settings")?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(objectOf("Service", "web")?.diff).toContain("8080");
  expect(objectOf("Secret", "login")?.secretKeys).toEqual([
    { key: "password", change: "changed" },
    { key: "user", change: "unchanged" },
  ]);
  expect(JSON.stringify(world.told)).not.toMatch(/horse-battery/);
  expect(await world.cluster.data("settings")).toEqual({ level: "1", "by-hand": "x" });
  expect(await world.cluster.data("added")).toBeUndefined();
  expect(await world.cluster.data("gone")).toEqual({ a: "b" });
});

test("what the API server refuses fails, and a kind that it does not have is named", async () => {
  const world = await useFlux(({ configMap, service, unknown }) => ({
    base: { apps: [service(80)] },
    merged: { apps: [service(80, "10.0.0.250"), unknown, configMap("Not-A-Name", {})] },
  }));
  await apply(world, world.objects.service(80));

  await world.run();

  const [preview] = world.previews();
  const errors = preview?.errors.map(({ ref, message }) => `${ref?.kind}: ${message}`) ?? [];
  expect(errors.join("\n")).toMatch(/Service: dry-run failed \(Invalid\): .*(?:immutable|may not change once set)/);
  expect(errors.join("\n")).toMatch(/ConfigMap: dry-run failed \(Invalid\): .*Not-A-Name/);
  expect(errors.join("\n")).toContain('Thing: no matches for kind "Thing" in version "example.com/v1"');
});

test("an account that may not look says so, and is not asked in vain", async () => {
  const world = await useFlux(({ configMap }) => ({ base: { apps: [] }, merged: { apps: [configMap("a", {})] } }));
  await world.cluster.delete({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name: account },
  });
  await expect
    .poll(async () => {
      await world.run();
      return world.previews()[0]?.failure ?? "";
    })
    .toContain(`User "system:serviceaccount:${world.cluster.namespace}:${account}" cannot get resource "configmaps"`);
  expect(world.told.at(-1)?.mendable).toBe(true);
});

const kustomization = (resources: readonly string[]) =>
  `apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: ${JSON.stringify(resources)}\n`;

test("what Flux's own code renders of two commits is compared with the cluster, nested Kustomizations too", async () => {
  const variables = { substituteFrom: [{ kind: "Secret", name: "vars" }] };
  const spec = { interval: "1m", postBuild: variables };
  const world = await useFlux(() => ({ base: {}, merged: {} }), [], spec);
  const { namespace, kubeconfig } = world.cluster;
  await installFlux(kubeconfig);
  await allow(world.cluster, { apiGroups: ["kustomize.toolkit.fluxcd.io"], resources: ["kustomizations"] });
  const settings = (level: string) =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: ${namespace}}\ndata: {level: "${level}", who: "\${WHO}"}\n`;
  const nested = JSON.stringify(aFluxResource("nested", { namespace, spec: { interval: "1m", path: "./nested" } }));
  const filesOf = (level: string, resources: readonly string[]) => ({
    "apps/kustomization.yaml": kustomization(resources),
    "apps/settings.yaml": settings(level),
    "apps/nested.json": nested,
    "nested/added.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: added, namespace: ${namespace}}\ndata: {a: b}\n`,
  });
  const roots = {
    base: await useFiles(filesOf("1", ["settings.yaml"])),
    merged: await useFiles(filesOf("2", ["settings.yaml", "nested.json"])),
  };
  const { render } = await useFluxRenderer();
  world.flux.deps.renderer.render = ({ root, ...input }, signal) =>
    render({ ...input, root: root.startsWith("/base") ? roots.base : roots.merged }, signal);
  await apply(world, world.objects.configMap("settings", { level: "1", who: "ann" }));

  expect(await world.run()).toEqual({ kind: "done" });

  const report = world.told.at(-1);
  const comment = report && renderComment(report, { maxLength: 60_000, marker: "" });
  expect(comment).toContain(" data.level:\n-  1\n+  2");
  expect(comment).toContain("compared with the base branch, not with the cluster");
  expect(comment).not.toContain("kustomize.toolkit.fluxcd.io/name");
  expect(world.previews()).toMatchObject([
    { deployment: { name: "apps" }, state: "done", counts: { changed: 1, new: 1, errors: 0 } },
    { deployment: { name: "nested" }, state: "done", counts: { changed: 0, new: 1, errors: 0 } },
  ]);
});

const chart = (port: number, version: string) => ({
  "charts/web/Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
  "charts/web/values.yaml": "level: '1'\npassword: ''\n",
  "charts/web/templates/service.yaml": `apiVersion: v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}, labels: {served: '{{ .Capabilities.APIVersions.Has "apps/v1/Deployment" }}'}}\nspec: {selector: {app: web}, ports: [{port: ${port}}]}\n`,
  "charts/web/templates/login.yaml":
    "apiVersion: v1\nkind: Secret\nmetadata: {name: web-login}\nstringData: {token: {{ randAlphaNum 12 }}, level: {{ .Values.level | quote }}}\n",
});

test("the chart of a HelmRelease is compared with what Helm has applied, and random values are not shown", async () => {
  const world = await useFlux(() => ({ base: {}, merged: {} }));
  const { namespace, kubeconfig } = world.cluster;
  await installFlux(kubeconfig);
  await allow(world.cluster, { apiGroups: ["helm.toolkit.fluxcd.io"], resources: ["helmreleases"] });
  const release = (level: string) => ({
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: { name: "web", namespace } },
    spec: {
      interval: "1m",
      chart: {
        spec: { chart: "./charts/web", sourceRef: { kind: "GitRepository", name: "shop", namespace: "flux-system" } },
      },
      values: { level },
    },
  });
  const files = (level: string) => ({
    "apps/kustomization.yaml": kustomization(["release.json"]),
    "apps/release.json": JSON.stringify(release(level)),
  });
  const roots = {
    base: await useFiles({ ...files("1"), ...chart(80, "0.1.0") }),
    merged: await useFiles({ ...files("2"), ...chart(8080, "0.2.0") }),
  };
  world.sources.nextMerge.changed = {
    complete: true,
    paths: ["apps/release.json", "charts/web/templates/service.yaml"],
  };
  const renderer = await useFluxRenderer();
  const rootOf = (root: string) => (root.startsWith("/base") ? roots.base : roots.merged);
  world.flux.deps.renderer.render = (input, signal) => renderer.render({ ...input, root: rootOf(input.root) }, signal);
  world.flux.deps.renderer.renderReleases = (input, signal) =>
    renderer.renderReleases({ ...input, root: rootOf(input.root) }, signal);
  const marks = {
    labels: {
      "app.kubernetes.io/managed-by": "Helm",
      "helm.toolkit.fluxcd.io/name": "web",
      "helm.toolkit.fluxcd.io/namespace": namespace,
      served: "true",
    },
    annotations: { "meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": namespace },
  };
  const service = { selector: { app: "web" }, ports: [{ port: 80 }] };
  const live = { apiVersion: "v1", kind: "Service", metadata: { name: "web", namespace, ...marks }, spec: service };
  const apply = (object: object, manager: string) =>
    world.cluster.objects.patch(object as KubernetesObject, undefined, undefined, manager, true, PatchStrategy.ServerSideApply); // prettier-ignore
  await apply(live, "helm-controller");
  await apply(release("1"), "kustomize-controller");
  const conditions = [{ type: "Ready", status: "True" }];
  const client = createKubeClient({ kubeconfig });
  onTestFinished(() => client.close());
  await client.request({
    ...{ method: "PATCH", patch: "apply", query: { fieldManager: "helm-controller", force: true } },
    path: `/apis/helm.toolkit.fluxcd.io/v2/namespaces/${namespace}/helmreleases/web/status`,
    body: { ...release("1"), status: { observedGeneration: 1, conditions } },
  });

  expect(await world.run()).toEqual({ kind: "done" });

  const preview = world.previews().find(({ kind }) => kind === "HelmRelease");
  expect(preview).toMatchObject({ deployment: { namespace, name: "web" }, state: "done" });
  const objectOf = (kind: string) => preview?.objects.find(({ ref }) => ref.kind === kind);
  expect(objectOf("Service")?.diff).toContain("8080");
  expect(objectOf("Service")?.diff).not.toContain("labels");
  // The Secret with the random value, and not the Service.
  expect(preview?.warnings.map(({ message }) => message).join()).toContain(
    "1 object was compared with the base branch",
  );
  expect(objectOf("Secret")?.secretKeys).toEqual(
    expect.arrayContaining([expect.objectContaining({ key: "level" }), expect.objectContaining({ key: "token" })]),
  );
  expect(await world.cluster.data("web-login")).toBeUndefined();
});
