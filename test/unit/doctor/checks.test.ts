import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { examine } from "../../../src/doctor/check.ts";
import { createDoctorCluster, type DoctorClusterDeps, lastWriterOf } from "../../../src/doctor/cluster.ts";
import { exitCodeOf, ok, problem, warning } from "../../../src/doctor/finding.ts";
import { examineFlux } from "../../../src/doctor/flux.ts";
import { examineFluxStatuses } from "../../../src/doctor/flux-statuses.ts";
import { examinePermissions } from "../../../src/doctor/permissions.ts";
import { examineRepositories } from "../../../src/doctor/repositories.ts";
import { examineController } from "../../../src/doctor/running-controller.ts";
import { examineServer } from "../../../src/doctor/server.ts";
import { toFacts, toText } from "../../../src/doctor/show.ts";
import {
  examineDataDir,
  examineForge,
  examineKluctl,
  examineRecording,
  examineRedis,
} from "../../../src/doctor/surroundings.ts";
import { ApiError } from "../../../src/errors.ts";
import type { FluxSource, Heads } from "../../../src/model.ts";
import { newOurId } from "../../../src/reconcile/our-ids.ts";
import { aDeployment } from "../../support/deployments.ts";
import { aFluxSource, aHelmRelease, aKustomization } from "../../support/flux.ts";
import { fakeDoctorCluster } from "../../support/fake-doctor-cluster.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const lines = (findings: readonly { level: string; subject: string; message: string }[]) =>
  findings.map(({ level, subject, message }) => `${level} ${subject}: ${message}`);

test("the Kustomizations and HelmReleases of Flux that get statuses are counted, and what keeps them from that is named", async () => {
  const sources = [aFluxSource(), aFluxSource({ name: "fixed", ref: { commit: "1".repeat(40) } })];
  const of = (kind: string, name: string) => ({ spec: { sourceRef: { kind, name } } });
  const deployments = [
    aKustomization("apps"),
    aKustomization("fixed", of("GitRepository", "fixed")),
    aKustomization("lost", of("GitRepository", "lost")),
    aKustomization("bucket", of("Bucket", "shop")),
    aHelmRelease("web", { owner: "apps" }),
    aHelmRelease("lost", { owner: "lost" }),
  ];
  const examined = async (found: Parameters<typeof examineFluxStatuses>[0], forge = { token: "t" } as object) =>
    lines(await examineFluxStatuses(found, [forge]));
  expect(await examined(Promise.resolve([sources, deployments]))).toEqual([
    "ok Kustomizations and HelmReleases of Flux: 2 of 6 get their content from a GitRepository, and get commit statuses",
  ]);
  expect(await examined(Promise.resolve([sources, deployments]), {})).toEqual([
    "warning Kustomizations and HelmReleases of Flux: the server can log in to no git host: flux.statuses has no effect",
  ]);
  expect(await examined(Promise.resolve([sources, undefined]))).toEqual([
    "warning Kustomizations and HelmReleases of Flux: the cluster has neither kustomize.toolkit.fluxcd.io/v1 nor helm.toolkit.fluxcd.io/v2: flux.statuses has no effect",
  ]);
  expect(await examined(Promise.reject(new ApiError(403, "forbidden")))).toEqual([
    "warning Kustomizations and HelmReleases of Flux: the server's account may not list them, or not their GitRepositories",
  ]);
  await expect(examined(Promise.reject(new ApiError(500, "broken")))).rejects.toThrow("broken");
});

test("the GitRepositories that Flux is made to fetch are counted, and what keeps it from that is named", async () => {
  const sources = [
    aFluxSource(),
    aFluxSource({ ref: { commit: "1".repeat(40) } }),
    { ...aFluxSource(), webhooks: false },
    { ...aFluxSource(), suspended: true },
  ];
  const examined = async (found: Promise<readonly FluxSource[] | undefined>, webhooks = true) =>
    lines(await examineFlux(found, [{ webhooks }]));
  expect(await examined(Promise.resolve(sources))).toEqual([
    "ok GitRepositories of Flux: 1 of 4 are fetched as soon as a push to their ref is reported",
    "ok GitRepositories of Flux: webhooks are disabled by annotation for flux-system/shop",
  ]);
  expect(await examined(Promise.resolve([]), false)).toEqual([
    "warning GitRepositories of Flux: no git host sends webhooks: only the sweep finds pushes",
  ]);
  expect(await examined(Promise.resolve(undefined))).toEqual([
    "warning GitRepositories of Flux: the cluster does not have source.toolkit.fluxcd.io/v1: flux.trigger has no effect",
  ]);
  expect(await examined(Promise.reject(new ApiError(403, "forbidden")))).toEqual([
    "warning GitRepositories of Flux: the server's account may not list them",
  ]);
  await expect(examined(Promise.reject(new ApiError(503, "busy")))).rejects.toThrow("busy");
});

test("a missing KluctlDeployment definition and a clock difference are reported", async () => {
  expect(lines(await examineServer(fakeDoctorCluster()))).toEqual([
    "ok API server: reachable, v1.32.2",
    "ok clock: in sync with the API server",
    "ok KluctlDeployment: gitops.kluctl.io/v1beta1 is served",
  ]);
  const found = await examineServer(fakeDoctorCluster({ resources: [], aheadMs: -90_000 }));
  expect(lines(found)).toEqual([
    "ok API server: reachable, v1.32.2",
    expect.stringContaining("warning clock: this machine's clock is 90 s behind the API server's"),
    "problem KluctlDeployment: the cluster does not serve gitops.kluctl.io/v1beta1",
  ]);
});

test("kluctl's controller is found by its Deployment, its Lease and its status writes", async () => {
  const wrote = (name: string, secondsAgo: number) => ({
    deployment: aDeployment({ key: { namespace: "shop", name } }),
    spec: {},
    lastWriter: { manager: "kluctl-controller", at: now - secondsAgo * 1_000 },
  });
  const namespace = "kluctl-system";
  const key = { namespace, name: "kluctl-controller" };
  const cluster = fakeDoctorCluster({
    controllers: [{ key, image: "ghcr.io/kluctl/kluctl:v2.22.1", wanted: 1, ready: 1 }],
    leases: { "kluctl-system/5ab5d0f9.kluctl.io": { renewedAt: now - 2_000, holder: "kluctl-controller-7d" } },
  });
  const found = await examineController({ cluster, namespace, now: () => now }, [
    wrote("prod", 3_000),
    wrote("staging", 40),
  ]);
  expect(lines(found)).toEqual([
    "warning kluctl-system/kluctl-controller: runs ghcr.io/kluctl/kluctl:v2.22.1, 1 of 1 ready",
    "warning Lease kluctl-system/5ab5d0f9.kluctl.io: held by kluctl-controller-7d, 2 s ago",
    "warning status writes: kluctl-controller wrote the status of shop/staging 40 s ago",
  ]);

  const unseen = fakeDoctorCluster({ controllers: "forbidden" });
  const [workload] = await examineController({ cluster: unseen, namespace, now: () => now }, []);
  expect(workload).toMatchObject({
    level: "ok",
    message: expect.stringContaining("no permission to list Deployments"),
  });

  const stopped = fakeDoctorCluster({
    controllers: [{ key, image: "ghcr.io/kluctl/kluctl:v2.22.1", wanted: 0, ready: 0 }],
    leases: { "kluctl-system/5ab5d0f9.kluctl.io": { renewedAt: now - 60_000, holder: "kluctl-controller-7d" } },
    works: { "shop/staging": now - 40_000 },
  });
  const after = await examineController({ cluster: stopped, namespace, now: () => now }, [wrote("staging", 40)]);
  expect(lines(after)).toEqual([
    "ok kluctl-system/kluctl-controller: scaled to 0 (ghcr.io/kluctl/kluctl:v2.22.1)",
    "ok Lease kluctl-system/5ab5d0f9.kluctl.io: expired, last held by kluctl-controller-7d, 60 s ago",
    "ok status writes: only by a Towline in the last 15 minutes (1 of 1 deployments)",
  ]);
});

test("the id in the status distinguishes a skipped reconciliation of a Towline from one of kluctl's controller", () => {
  const at = new Date(now).toISOString();
  const item = (reconcileId: string, endTime = at) => ({
    metadata: { managedFields: [{ manager: "kluctl-controller", time: at, subresource: "status" }] },
    status: { lastDriftDetectionResult: { endTime, reconcileId } },
  });
  const wrote = { manager: "kluctl-controller", at: now };
  expect(lastWriterOf(item(newOurId()))).toEqual({ ...wrote, isTowline: true });
  expect(lastWriterOf(item(randomUUID()))).toEqual(wrote);
  // Another writer changed the status after that reconciliation.
  expect(lastWriterOf(item(newOurId(), new Date(now - 60_000).toISOString()))).toEqual(wrote);
  expect(lastWriterOf({ ...item(newOurId()), status: undefined })).toEqual(wrote);
});

test("status writes of a Towline without a Lease are no sign of kluctl's controller", async () => {
  const found = {
    deployment: aDeployment({ key: { namespace: "shop", name: "prod" } }),
    spec: {},
    lastWriter: { manager: "kluctl-controller", at: now - 40_000, isTowline: true as const },
  };
  const deps = { cluster: fakeDoctorCluster({}), namespace: "kluctl-system", now: () => now };
  expect(lines(await examineController(deps, [found])).at(-1)).toBe(
    "ok status writes: only by a Towline in the last 15 minutes (1 of 1 deployments)",
  );
});

test("a Lease that one or more Towlines hold is no sign of kluctl's controller", async () => {
  for (const holder of ["towline", "towline-kluctl-controller-7d_4f1c"]) {
    const leases = { "kluctl-system/5ab5d0f9.kluctl.io": { renewedAt: now - 2_000, holder } };
    const deps = { cluster: fakeDoctorCluster({ leases }), namespace: "kluctl-system", now: () => now };
    expect((await examineController(deps, [])).map(({ level }) => level)).toEqual(["ok", "ok", "ok"]);
  }
});

test("a Towline is recognised by a deployment's Lease that it released, and that is not the leader's Lease", async () => {
  const spec = { holderIdentity: "", renewTime: new Date(now).toISOString(), leaseDurationSeconds: 15 };
  const client = { request: () => Promise.resolve({ spec }) } as unknown as DoctorClusterDeps["client"];
  const cluster = createDoctorCluster({ client, namespaces: [], now: () => now });
  const key = { namespace: "shop", name: "prod" };
  expect(await cluster.ownLease(key)).toMatchObject({ renewedAt: now });
  expect(await cluster.lease(key)).toBeUndefined();
});

test("every verb that the server needs is checked, and a missing one is named with its purpose", async () => {
  const input = {
    namespaces: [],
    resultsNamespace: "kluctl-results",
    leader: "kluctl-system",
    overrides: undefined,
    legacy: false,
    readsSecrets: true,
    decrypts: false,
    accounts: [{ namespace: "shop", name: "deployer" }],
    previewAccounts: [{ namespace: "shop", name: "preview" }],
    asServer: true,
    operatorGroups: ["team:ops"],
    asksWhatPeopleSee: true,
  };
  const all = fakeDoctorCluster();
  expect((await examinePermissions(all, input)).map(({ level }) => level)).not.toContain("problem");
  expect(all.asked).toContainEqual(
    expect.objectContaining({ verb: "impersonate", resource: "serviceaccounts", namespace: "shop", name: "deployer" }),
  );
  expect(all.asked).toContainEqual(
    expect.objectContaining({ verb: "create", subresource: "token", namespace: "shop", name: "preview" }),
  );

  const few = fakeDoctorCluster({
    missingNamespaces: ["kluctl-results"],
    forbidden: ({ verb, subresource, resource }) =>
      subresource === "status" ||
      (verb === "create" && subresource === "token") ||
      verb === "impersonate" ||
      resource === "namespaces" ||
      resource === "*" ||
      resource === "subjectaccessreviews",
  });
  const found = (await examinePermissions(few, input)).filter(({ level }) => level !== "ok");
  expect(lines(found)).toEqual([
    "problem kluctldeployments/status.gitops.kluctl.io: may not patch: status cannot be written",
    "problem namespace kube-system: may not get it: its UID identifies the cluster in results",
    "problem namespace kluctl-results: does not exist, and the server may not create it",
    "problem service account shop/deployer: may not impersonate it",
    "problem tokens of service account shop/preview: may not create them: pull requests are not previewed for its deployments",
    "warning group team:ops: may not impersonate it: its members cannot send requests on the page",
    "warning subjectaccessreviews.authorization.k8s.io: may not create them: users who log in see nothing on the page",
    expect.stringMatching(/^warning everything else: the server is not cluster-admin/),
  ]);

  const more = fakeDoctorCluster({
    forbidden: ({ group, resource }) =>
      group === "flux.kluctl.io" || resource === "configmaps" || resource === "serviceaccounts",
  });
  const missing = await examinePermissions(more, {
    ...input,
    accounts: [],
    previewAccounts: [],
    overrides: "kluctl-system",
    legacy: true,
    decrypts: true,
  });
  expect(lines(missing.filter(({ level }) => level !== "ok"))).toEqual([
    "problem kluctldeployments.flux.kluctl.io: may not get, list, watch, patch: deployments of flux.kluctl.io are not served",
    "problem kluctldeployments/status.flux.kluctl.io: may not patch: deployments of flux.kluctl.io are not served",
    "warning serviceaccounts: may not get: the AWS role of a service account is not used to decrypt",
    "warning serviceaccounts/token: may not create: the AWS role of a service account is not used to decrypt",
    "problem configmaps in kluctl-system: may not get, create, patch: source overrides of `kluctl gitops` do not work",
  ]);

  const scoped = fakeDoctorCluster();
  await examinePermissions(scoped, { ...input, namespaces: ["shop", "blog"], accounts: [], asServer: false });
  const asked = scoped.asked.filter(({ resource }) => resource === "kluctldeployments");
  expect(new Set(asked.map(({ namespace }) => namespace))).toEqual(new Set(["shop", "blog"]));
});

test("a remote is asked once for all deployments that use it with the same login", async () => {
  const questions: string[] = [];
  const found = ["prod", "staging", "lost"].map((name) => ({
    deployment: aDeployment({
      key: { namespace: "shop", name },
      spec: {
        source: {
          url: "https://git.example.com/org/shop",
          path: "",
          ref: { branch: name === "lost" ? "gone" : "main" },
        },
      },
    }),
    spec: {},
  }));
  const heads: Heads = { defaultRef: "refs/heads/main", commits: new Map([["refs/heads/main", "c1"]]) };
  const findings = await examineRepositories(({ key }) => {
    questions.push(key.name);
    return Promise.resolve(heads);
  }, found);
  expect(questions).toEqual(["prod"]);
  expect(lines(findings)).toEqual(["problem git.example.com/org/shop: no branch gone, which shop/lost follows"]);
  const refused = await examineRepositories(() => Promise.reject(new Error("authentication failed")), found);
  expect(lines(refused)).toEqual(["problem git.example.com/org/shop: authentication failed (shop/prod and 2 more)"]);
});

test("kluctl, Redis and the other dependencies are reported as they are", async () => {
  const broken = () => Promise.reject(new Error("it is not there"));
  expect(lines(await examineKluctl(() => Promise.resolve("2.28.2")))).toEqual(["ok kluctl: 2.28.2"]);
  expect(lines(await examineKluctl(broken))).toEqual(["problem kluctl: it is not there"]);
  const redis = { version: "7.0", problems: ["it evicts"], warnings: ["no append-only file"] };
  expect(lines(await examineRedis(() => Promise.resolve(redis), "configured"))).toEqual([
    "problem Redis: it evicts",
    "warning Redis: no append-only file",
  ]);
  expect(lines(await examineRedis(broken, "configured"))).toEqual(["problem Redis: it is not there"]);
  const recording = { enabled: true, days: 7 };
  expect(lines(await examineRecording({ ...recording, count: () => Promise.resolve(42) }))).toEqual([
    "ok recorded deliveries: recording is on, for 7 days; 42 stored",
  ]);
  expect(lines(await examineRecording({ ...recording, count: broken }))).toEqual([
    "problem recorded deliveries: recording is on, for 7 days; cannot count them: it is not there",
  ]);
  expect(lines(await examineRecording({ ...recording, enabled: false }))).toEqual([
    "ok recorded deliveries: recording is off; stored in the server's private Redis",
  ]);
  expect(lines(await examineForge("gitea", () => Promise.resolve({ name: "ada" })))).toEqual([
    "ok forge gitea: the login works: ada; pull requests are not previewed (preview.enabled is false)",
  ]);
  expect(lines(await examineForge("gitea", () => Promise.resolve({ name: "ada" }), { previews: true }))).toEqual([
    "ok forge gitea: the login works: ada; pull requests are previewed",
  ]);
  const expiring = { name: "ada", expiresAt: Date.now() + 86_400_000 };
  expect(lines(await examineForge("github", () => Promise.resolve(expiring)))).toEqual([
    "ok forge github: the login works: ada; pull requests are not previewed (preview.enabled is false)",
    `warning forge github: the login expires at ${new Date(expiring.expiresAt).toISOString()}`,
  ]);
  expect(lines(await examineForge("gitea", broken))).toEqual([
    "problem forge gitea: the login does not work: it is not there",
  ]);
  expect(lines(await examineForge("gitea", undefined, { isUnbound: true }))).toEqual([
    "warning forge gitea: its hosts are unknown, so other forges can send events for its repositories",
    "ok forge gitea: no login: webhooks are accepted, pull requests are not previewed",
  ]);
  expect((await examineDataDir(`${import.meta.dirname}/below/it`))[0]?.message).toContain("/below/it can be created");
  expect((await examineDataDir(`${import.meta.filename}/below`))[0]?.message).toContain("is not a directory");
});

test("a check that throws is a finding, and without an API server no other check runs", async () => {
  const broken = { group: "Rights", subject: "rights", run: () => Promise.reject(new Error("403 forbidden")) };
  const first = { group: "Cluster", subject: "API server", run: () => Promise.resolve([ok("API server", "is there")]) };
  const sections = await examine({ first, checks: [broken] });
  expect(sections.map(({ title, findings }) => [title, ...lines(findings)])).toEqual([
    ["Cluster", "ok API server: is there"],
    ["Rights", "problem rights: cannot be checked: 403 forbidden"],
  ]);
  const unreachable = { ...first, run: () => Promise.reject(new Error("ECONNREFUSED")) };
  expect(await examine({ first: unreachable, checks: [broken] })).toHaveLength(1);
});

test("each finding is one line whatever the cluster returns, and the worst is the exit code", () => {
  const sections = [
    { title: "Cluster", findings: [ok("API server", "it is there")] },
    {
      title: "Deployments",
      findings: [
        warning("shop/prod", "would be deployed\u001b[31m again\nand again", "look"),
        problem("shop/staging", "is broken"),
      ],
    },
  ];
  expect(toText(sections, (_, text) => text)).toBe(
    [
      "Cluster",
      "  ok       API server  it is there",
      "",
      "Deployments",
      "  warning  shop/prod     would be deployed [31m again; and again → look",
      "  problem  shop/staging  is broken",
      "",
      "1 problem and 1 warning, 1 ok.",
      "",
    ].join("\n"),
  );
  expect([[], sections.slice(0, 1), sections].map(exitCodeOf)).toEqual([0, 0, 2]);
  expect(toFacts(sections)).toMatchObject({
    status: "problem",
    counts: { ok: 1, warning: 1, problem: 1 },
    checks: [{}, { group: "Deployments", level: "warning", subject: "shop/prod", advice: "look" }, {}],
  });
});
