/**
 * A live set of deployments moves from kluctl's controller to our server and back; `npm run test:swap` uses two of each
 * kind.
 */
import type { KubernetesObject, V1Secret } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { freePort } from "../../dev/parts/port.ts";
import { runDoctor } from "../../src/app/doctor.ts";
import { parseConfig } from "../../src/config.ts";
import { useController, useOwnController } from "../support/kluctl-controller.ts";
import { aSpec } from "../support/project.ts";
import { useRegistryHost } from "../support/registry-host.ts";
import { ageMasterKey, blueKey, encryptedYaml } from "../support/sops.ts";
import { environment } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { idOf, readyOf, type TestDeployment, type TestResource } from "../support/world-cluster.ts";

const copies = Number(process.env["TOWLINE_SWAP_COPIES"] ?? 1);

type Json = Record<string, unknown>;

interface Kind {
  readonly spec?: Json;
  /** The files of its project's deployment item. */
  readonly item: (name: string) => Readonly<Record<string, string>>;
  /** The doctor's finding before the swap. */
  readonly doctor: RegExp;
}

const unchanged = /^ok nothing would be deployed/;
const waits = /^ok a change still waits for approval/;

const kinds: Readonly<Record<string, Kind>> = {
  plain: { spec: { validate: true }, item: aMap, doctor: unchanged },
  odd: { spec: { images: [{ image: "shop", resultImage: "shop:v1" }] }, item: oddities, doctor: unchanged },
  helm: { item: aChart, doctor: unchanged },
  sops: {
    spec: { decryption: { provider: "sops", secretRef: { name: "keys" } } },
    item: encryptedMap,
    doctor: unchanged,
  },
  oci: { item: aMap, doctor: unchanged },
  approved: { spec: { manual: true }, item: aMap, doctor: unchanged },
  waiting: { spec: { manual: true }, item: aMap, doctor: waits },
  // Two deployments that are approved while no controller runs.
  "approved-for-us": { spec: { manual: true }, item: aMap, doctor: waits },
  "approved-for-them": { spec: { manual: true }, item: aMap, doctor: waits },
  failing: {
    spec: { retryInterval: "1h" },
    item: (name) => ({ ...aMap(name), "bad.yml": stringify(mapOf("Not_A_Name")) }),
    doctor: /^warning its last deploy failed: Towline retries/,
  },
  broken: {
    item: () => ({ "broken.yml": "{{ no_such_function() }}" }),
    doctor: /^warning cannot be prepared, as its status already reports: .*no_such_function/s,
  },
  drifted: { item: aMap, doctor: unchanged },
  suspended: { item: aMap, doctor: /^ok suspended/ },
};

function mapOf(name: string, data: Record<string, string> = { size: "{{ args.size }}" }) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "{{ args.namespace }}" }, data };
}

function aMap(name: string): Record<string, string> {
  return { "map.yml": stringify(mapOf(name)) };
}

function encryptedMap(name: string): Record<string, string> {
  const by = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey), fields: ["data"] };
  return { "map.yml": encryptedYaml(mapOf(name, { size: "10" }), by) };
}

/** Characters that JSON encoders treat differently, and an image. */
function oddities(name: string): Record<string, string> {
  const data = `{ odd: "<a> & b\\u2028 é 😀 \\t", image: "{{ images.get_image('shop') }}" }`;
  return {
    "map.yml": `apiVersion: v1
kind: ConfigMap
metadata: { name: ${name}, namespace: "{{ args.namespace }}" }
data: ${data}
`,
  };
}

function aChart(name: string): Record<string, string> {
  const template = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  size: {{ .Values.size | quote }}
`;
  return {
    "helm-chart.yaml": stringify({
      helmChart: { path: "chart", releaseName: name, namespace: "{{ args.namespace }}" },
    }),
    "helm-values.yml": stringify({ size: "10" }),
    "chart/Chart.yaml": stringify({ apiVersion: "v2", name: "chart", version: "1.0.0" }),
    "chart/templates/map.yaml": template,
  };
}

interface Fleet {
  readonly world: TestWorld;
  /** Deployments by name. */
  readonly all: ReadonlyMap<string, TestDeployment>;
  ofKind(kind: string): readonly TestDeployment[];
}

async function createFleet(world: TestWorld): Promise<Fleet> {
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("fleet");
  const members = Object.keys(kinds).flatMap((kind) =>
    Array.from({ length: copies }, (_, index) => ({ kind, name: `${kind}-${index}` })),
  );
  const config = { discriminator: `${namespace}-{{ args.name }}`, targets: [{ name: "prod" }] };
  const files = members.flatMap(({ kind, name }) => [
    [
      `${name}/.kluctl.yaml`,
      stringify({ ...config, args: [{ name: "name" }, { name: "namespace" }, { name: "size" }] }),
    ],
    // An include and a barrier: the hash covers all objects, in deployment order.
    [
      `${name}/deployment.yaml`,
      stringify({
        deployments: [{ path: "app" }, { barrier: true }, { include: "more" }],
        commonLabels: { deployment: "{{ args.name }}" },
      }),
    ],
    [`${name}/more/deployment.yaml`, stringify({ deployments: [{ path: "last" }] })],
    [`${name}/more/last/map.yml`, stringify(mapOf(`${name}-last`))],
    ...Object.entries(kinds[kind]?.item(name) ?? {}).map(([path, text]) => [`${name}/app/${path}`, text]),
  ]);
  const tree = Object.fromEntries(files) as Record<string, string>;
  await repo.push(tree);
  const keys = { "team.agekey": blueKey.identity };
  await cluster.create({ apiVersion: "v1", kind: "Secret", metadata: { name: "keys" }, stringData: keys } as V1Secret);
  const registry = await useRegistryHost();
  registry.fault = ({ url }, res) => url === "/v2/" && (res.end(), true); // kluctl's own client starts with this request
  registry.push("fleet", "latest", tree);
  const all = new Map(members.map(({ name }) => [name, cluster.deployment(name)]));
  await Promise.all(
    members.map(({ kind, name }) =>
      cluster.deployment(name).create(
        aSpec(repo.url, {
          source:
            kind === "oci"
              ? { oci: { url: registry.url("fleet"), path: name } }
              : { git: { url: repo.url, path: name, ref: { branch: "main" } } },
          args: { name, namespace, size: "10" },
          ...kinds[kind]?.spec,
        }),
      ),
    ),
  );
  const ofKind = (kind: string) =>
    members.filter((member) => member.kind === kind).map(({ name }) => all.get(name) as TestDeployment);
  return { world, all, ofKind };
}

/** Requests a check of all deployments: before the next controller starts, so that this is its first reconciliation. */
async function ask(deployments: Iterable<TestDeployment>, requestValue: string): Promise<void> {
  const value = JSON.stringify({ requestValue });
  const metadata = { annotations: { "kluctl.io/request-reconcile": value } };
  await Promise.all([...deployments].map((deployment) => deployment.patch({ metadata })));
}

async function answered(deployments: Iterable<TestDeployment>, requestValue: string): Promise<void> {
  const isAnswered = ({ status }: TestResource) => {
    const { request, endTime } = (status?.["reconcileRequestResult"] ?? {}) as { request?: Json; endTime?: string };
    return request?.["requestValue"] === requestValue && endTime !== undefined;
  };
  for (const deployment of deployments) {
    await deployment.until(`the end of ${requestValue}`, isAnswered);
    await deployment.settles();
  }
}

/**
 * Waits for a check after the edit, by whichever controller runs: the answer to a request may come from a check that
 * began before.
 */
async function seesDrift(deployments: Iterable<TestDeployment>): Promise<void> {
  for (const deployment of deployments) {
    await deployment.until("its drift", ({ status }) => status?.["lastDriftDetectionResultMessage"] === "1 chg");
  }
}

async function approve(deployments: readonly TestDeployment[]): Promise<void> {
  for (const deployment of deployments) {
    const { status } = (await deployment.get()) as TestResource;
    const drift = status?.["lastDriftDetectionResult"] as { renderedObjectsHash: string } | undefined;
    await deployment.patch({ spec: { manualObjectsHash: drift?.renderedObjectsHash } });
  }
}

/** What a swap must not change: all objects, and all fields of the deployments except the traces of checks. */
async function factsOf({ world: { cluster }, all }: Fleet) {
  const { core, namespace } = cluster;
  const { items } = await core.listNamespacedConfigMap({ namespace });
  const stored = await core.listNamespacedSecret({ namespace, labelSelector: "kluctl.io/command-result-id" });
  const deployments = [...all].map(async ([name, deployment]) => {
    const resource = (await deployment.get()) as TestResource;
    const { spec, status } = resource;
    const { reason, message } = readyOf(resource);
    const drift = status?.["lastDriftDetectionResultMessage"];
    const kept = ["lastObjectsHash", "lastManualObjectsHash", "projectKey", "targetKey", "observedCommit"];
    const facts = {
      spec,
      reason,
      // Our message is kluctl's, followed by the first error.
      message: reason === "PrepareFailed" ? "in other words" : message?.replace(/ First error: .*/s, ""),
      deployed: idOf(resource, "lastDeployResult"),
      // kluctl's controller does not count rejected objects, so it reports no drift.
      drift: reason === "DeployFailed" && drift === "1 err" ? "no drift" : drift,
      ...Object.fromEntries(kept.map((field) => [field, status?.[field]])),
    };
    return [name, facts] as const;
  });
  return {
    /** The resourceVersion of each object, by name. */
    objects: Object.fromEntries(items.map(({ metadata }) => [metadata?.name ?? "", metadata?.resourceVersion])),
    results: stored.items.map(({ metadata }) => metadata?.name).sort(),
    deployments: Object.fromEntries(await Promise.all(deployments)),
  };
}

type Facts = Awaited<ReturnType<typeof factsOf>>;

/** All kinds except the one that was meant to change. */
function unaffected({ objects, deployments }: Facts, kind: string) {
  const others = <T>(map: Record<string, T>) =>
    Object.fromEntries(Object.entries(map).filter(([name]) => name.replace(/-\d+(-last)?$/, "") !== kind));
  return { objects: others(objects), deployments: others(deployments) };
}

async function statesOf({ all }: Fleet): Promise<readonly (string | undefined)[]> {
  const resources = await Promise.all([...all.values()].map((deployment) => deployment.get()));
  return resources.map((resource) => resource?.metadata?.resourceVersion);
}

/** What dashboards and alerts use: names, types and labels of all deployment metrics, without their values. */
async function seriesOf(address: string): Promise<string[]> {
  const lines = (await (await fetch(`http://${address}/metrics`)).text()).split("\n");
  const ofDeployments = lines.filter((line) => /^(# TYPE )?(kluctldeployments_|gotk_)/.test(line));
  expect(ofDeployments.length).toBeGreaterThan(100);
  return ofDeployments.flatMap((line) => {
    const [, name, labels = ""] = /^(\w+)\{(.*)\} /.exec(line) ?? [];
    if (name === undefined) return line;
    // Only the controller that did the work knows its duration.
    return /_duration_/.test(name)
      ? []
      : `${name}{${labels
          .split(/,(?=\w+=")/)
          .sort()
          .join(",")}}`;
  });
}

test("deployments of all kinds move to our server and back: nothing is deployed twice, and every approval stays valid", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const fleet = await createFleet(world);

  // kluctl's controller brings the deployments into all possible states.
  const metrics = `127.0.0.1:${await freePort()}`;
  const stopFirst = useController(world, { "metrics-bind-address": metrics });
  for (const deployment of fleet.all.values()) await deployment.settles();
  await approve(fleet.ofKind("approved"));
  await Promise.all(fleet.ofKind("suspended").map((deployment) => deployment.patch({ spec: { suspend: true } })));
  for (const kind of ["approved", "suspended"]) {
    for (const deployment of fleet.ofKind(kind)) await deployment.settles();
  }
  const edited = { apiVersion: "v1", kind: "ConfigMap", data: { size: "20" } };
  for (let index = 0; index < copies; index++) {
    await cluster.patch({ ...edited, metadata: { name: `drifted-${index}` } } as KubernetesObject);
  }
  await ask(fleet.ofKind("drifted"), "before");
  await answered(fleet.ofKind("drifted"), "before");
  await seesDrift(fleet.ofKind("drifted"));
  const series = await seriesOf(metrics);
  await stopFirst();
  const before = await factsOf(fleet);
  const summary = Object.entries(before.deployments).map(([name, { reason, drift }]) => [name, [reason, drift]]);
  expect(Object.fromEntries(summary)).toMatchObject({
    "plain-0": ["ReconciliationSucceeded", "no drift"],
    "waiting-0": ["DeployFailed", "2 new"],
    "failing-0": ["DeployFailed", "no drift"],
    "broken-0": ["PrepareFailed", undefined],
    "drifted-0": ["ReconciliationSucceeded", "1 chg"],
  });

  const states = await statesOf(fleet);
  const sections = await runDoctor({
    config: parseConfig({ env: environment(world, { TOWLINE_CONTROLLER_NAMESPACE: namespace }) }),
    env: process.env,
    compare: true,
    signal: AbortSignal.timeout(120_000),
  });
  const ofAll = sections.find(({ title }) => title === "Deployments")?.findings ?? [];
  const said = Object.fromEntries(ofAll.map(({ level, subject, message }) => [subject, `${level} ${message}`]));
  for (const [kind, { doctor }] of Object.entries(kinds)) expect(said[`${namespace}/${kind}-0`]).toMatch(doctor);
  const wrote = { level: "warning", subject: "status writes" };
  expect(sections.flatMap(({ findings }) => findings)).toContainEqual(expect.objectContaining(wrote));
  const others = sections.filter(({ title }) => title !== "Deployments").flatMap(({ findings }) => findings);
  expect(others.filter(({ level }) => level === "problem")).toEqual([]);
  expect(await statesOf(fleet)).toEqual(states);
  expect(await factsOf(fleet)).toEqual(before);

  // To our server, with an approval of what kluctl's controller rendered.
  await approve(fleet.ofKind("approved-for-us"));
  await ask(fleet.all.values(), "ours");
  const stopOurs = useOwnController(world, { "metrics-bind-address": metrics });
  await answered(fleet.all.values(), "ours");
  await seesDrift(fleet.ofKind("drifted"));
  expect(await seriesOf(metrics)).toEqual(expect.arrayContaining(series));
  await stopOurs();
  const ours = await factsOf(fleet);
  expect(unaffected(ours, "approved-for-us")).toEqual(unaffected(before, "approved-for-us"));
  expect(ours.objects["approved-for-us-0"]).toBeDefined();
  expect(ours.results).toHaveLength(before.results.length + copies);

  // And back, with an approval of what our server rendered.
  await approve(fleet.ofKind("approved-for-them"));
  await ask(fleet.all.values(), "theirs");
  const stopSecond = useController(world);
  await answered(fleet.all.values(), "theirs");
  await seesDrift(fleet.ofKind("drifted"));
  await stopSecond();
  const theirs = await factsOf(fleet);
  expect(unaffected(theirs, "approved-for-them")).toEqual(unaffected(ours, "approved-for-them"));
  expect(theirs.objects["approved-for-them-0"]).toBeDefined();
  expect(theirs.results).toHaveLength(ours.results.length + copies);
});
