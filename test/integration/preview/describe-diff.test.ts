import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { CommandResult } from "../../../src/model.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { maskResult } from "../../../src/redact/mask-result.ts";
import { findLargePrune } from "../../../src/guards/pruning.ts";
import {
  collectLogs,
  createProject,
  fakeHeld,
  newKluctl,
  newRun,
  noDeployOptions,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { uniqueName, useCluster, useKluctl, useTempDir } from "../../support/world.ts";

const signal = new AbortController().signal;

/** Deploys one version of a project and diffs another one with the cluster. */
async function useShop() {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rm(cacheDir, { recursive: true, force: true }));
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const limits = { leaseSilenceMs: 600_000 }; // the lease of these runs is never renewed
  const kluctl = newKluctl(dir, { binary, log: collectLogs().log, kubeconfigFor: () => kubeconfig, cacheDir, limits });
  onTestFinished(() => kluctl.stop());
  const discriminator = uniqueName("describe");
  const runOf = async (name: string, manifests: Record<string, unknown>) => {
    const files = Object.entries(manifests).map(([file, manifest]) => [`app/${file}.yaml`, JSON.stringify(manifest)]);
    const projectDir = await createProject(join(dir, name), {
      ".kluctl.yaml": `discriminator: ${discriminator}`,
      "deployment.yaml": "deployments: [{path: app}]",
      ...(Object.fromEntries(files) as Record<string, string>),
    });
    return newRun({ projectDir, held: fakeHeld() });
  };
  return { cluster, kluctl, runOf, discriminator, namespace: cluster.namespace };
}

const canary = "hunter2-canary+of/the=day";
const formerCanary = "former&canary'of yesterday";
const pem = "-----BEGIN X-----\ncanary-line-number-one\ncanary-line-number-two\n-----END X-----\n";

function manifests(namespace: string, password: string, replicas: number) {
  const metadata = (name: string, more = {}) => ({ name, namespace, ...more });
  const labels = { app: "web" };
  const env = [{ name: "URL", value: `postgres://app:${encodeURIComponent(password)}@db/shop` }];
  const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "web:1", env }] } };
  return {
    secret: {
      apiVersion: "v1",
      kind: "Secret",
      metadata: metadata("db", { annotations: { note: `was ${password}` } }),
      stringData: { password, same: "stays-as-it-is", key: pem },
    },
    config: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: metadata("config"),
      data: {
        "app.conf": `# settings\nhost=db\nport=5432\nuser=app\npassword=${password}\nlevel=${replicas}\n`,
        basic: Buffer.from(`app:${password}`).toString("base64"),
        certificate: pem,
      },
    },
    web: {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: metadata("web"),
      spec: { replicas, selector: { matchLabels: labels }, template },
    },
    store: {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata: metadata("store"),
      spec: { serviceName: `store-${replicas}`, replicas: 0, selector: { matchLabels: labels }, template },
    },
    hook: {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: metadata("hook", { annotations: { "kluctl.io/hook": "post-deploy" } }),
      data: { a: "1" },
    },
  };
}

function expectNoCanary(text: string): void {
  for (const piece of ["canary", "Y2FuYXJ5", "hunter2", "yesterday", "stays-as"]) expect(text).not.toContain(piece);
}

test("the real kluctl's diff is described without secrets, and with its risks", async () => {
  const { kluctl, runOf, namespace } = await useShop();
  const before = manifests(namespace, formerCanary, 1);
  const leaving = { ...before.config, metadata: { name: "leaving", namespace } };
  const leavingSecret = { ...before.secret, metadata: { name: "leaving", namespace } };
  const deployed = await kluctl.deploy(
    await runOf("before", { ...before, leaving, leavingSecret }),
    { ...noDeployOptions, noWait: true },
    signal,
  );
  expect(deployed.errors).toEqual([]);

  const after = manifests(namespace, canary, 0);
  const bad = { ...after.config, metadata: { name: "bad", namespace, labels: { a: `!${canary}` } } };
  const fresh = { ...after.config, metadata: { name: "fresh", namespace } };
  const compared = await kluctl.diff(await runOf("after", { ...after, bad, fresh }), noDiffOptions, signal);
  const described = describeDiff(compared, { knownSecrets: [], prune: false });
  expect(described.concealed).toBeUndefined();
  expect(described.counts).toEqual({ new: 1, changed: 4, deleted: 0, orphan: 2, errors: 2, warnings: 0 });
  expect(described.objects.map(({ ref, action, risks }) => [ref.name, action, risks[0]?.kind])).toEqual([
    ["store", "changed", "immutable"],
    ["web", "changed", "availability"],
    ["config", "changed", undefined],
    ["fresh", "new", undefined],
    ["leaving", "orphan", undefined],
    ["db", "changed", undefined],
    ["leaving", "orphan", undefined],
  ]);
  const named = (name: string) => described.objects.find(({ ref }) => ref.name === name);
  expect(named("db")?.secretKeys).toEqual([
    { key: "key", change: "unchanged" },
    { key: "password", change: "changed" },
    { key: "same", change: "unchanged" },
  ]);
  expect(named("config")?.diff).toContain(
    [
      ' data["app.conf"]:',
      "   …",
      "   host=db",
      "   port=5432",
      "   user=app",
      "-  password=*****",
      "-  level=1",
      "+  password=*****",
      "+  level=0",
    ].join("\n"),
  );
  expect(named("web")?.diff).toContain("-  1\n+  0");
  expect(described.errors.map(({ message }) => message).join()).toContain('Invalid value: "!*****"');
  expectNoCanary(JSON.stringify(described));

  const pruned = describeDiff(compared, { knownSecrets: [], prune: true });
  expect(pruned.counts).toMatchObject({ deleted: 2, orphan: 0 });
  expect(findLargePrune(compared, { percent: 10, fromObjects: 1 })).toEqual({ doomed: 2, deployed: 7, empty: false });
  expect(pruned.objects.slice(0, 2).map(({ ref, risks }) => [ref.kind, risks[0]?.kind])).toEqual([
    ["ConfigMap", "deletion"],
    ["Secret", "deletion"],
  ]);
  expectNoCanary(JSON.stringify(pruned));
  expectNoCanary(visible(maskResult(compared)));
});

/** The part that the status stores. */
function visible({ objects, errors, warnings }: CommandResult): string {
  return JSON.stringify([objects.map(({ changes }) => changes), errors, warnings]);
}

test("the real kluctl reports the content of deleted Secrets, so that their values can be masked and nothing has to be concealed", async () => {
  const { kluctl, runOf, namespace, discriminator } = await useShop();
  const run = await runOf("before", manifests(namespace, canary, 1));
  await kluctl.deploy(run, { ...noDeployOptions, noWait: true }, signal);

  const deleted = await kluctl.delete(run, { discriminator, dryRun: false }, signal);

  const described = describeDiff(deleted, { knownSecrets: [], prune: false });
  expect(described.concealed).toBeUndefined();
  expect(described.counts.deleted).toBe(5);
  expect(described.objects.find(({ ref }) => ref.kind === "Secret")?.secretKeys).toContainEqual({
    key: "password",
    change: "removed",
  });
});
