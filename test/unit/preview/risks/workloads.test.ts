import { expect, test } from "vitest";
import { changed, created, linesOf, objectOf, update } from "./find.ts";

const web = { name: "web", image: "web:1.5.0" };
const deployment = (...containers: readonly unknown[]) => ({ spec: { template: { spec: { containers } } } });
const probe = { httpGet: { path: "/", port: 80 } };

test.each([
  [web, { ...web, image: "web:1.4.0" }, ["a container goes back to an older version of its image"]],
  [web, { ...web, image: "web" }, ["a container has an image whose tag can move to another version"]],
  [{ ...web, readinessProbe: probe }, web, ["a container loses its readiness probe"]],
  [{ ...web, livenessProbe: probe }, { ...web, livenessProbe: null }, ["a container loses its liveness probe"]],
  [{ ...web, startupProbe: probe }, { ...web, livenessProbe: probe }, ["a container loses its startup probe"]],
  [web, { ...web, readinessProbe: probe }, []],
  [
    { ...web, resources: { requests: { cpu: 1 } } },
    { ...web, resources: {} },
    ["a container loses a request for CPU or memory"],
  ],
  [{ ...web, resources: { requests: { "example.com/gpu": 1 } } }, web, []],
  [
    { ...web, resources: { limits: { cpu: 1 }, requests: { cpu: 1 } } },
    { ...web, resources: { limits: { cpu: 1 } } }, // which is the request, too
    [],
  ],
  [
    { ...web, resources: { limits: { cpu: 1, memory: 1 } } },
    { ...web, resources: { limits: { cpu: 1 } } },
    ["a container loses its memory limit"],
  ],
  [{ ...web, resources: { limits: { cpu: 1, memory: 1 } } }, { ...web, resources: { limits: { memory: 1 } } }, []],
  [{ ...web, resources: { limits: { cpu: 2 } } }, { ...web, resources: { limits: { cpu: 1 } } }, []],
])("a change of a container is described: %j → %j", (before, after, texts) => {
  const lines = linesOf(changed("apps/Deployment", deployment(before), deployment(after)));
  expect(lines).toEqual(texts.map((text) => `availability: ${text}`));
});

test("containers are compared by name, and counted", () => {
  const old = [
    { ...web, readinessProbe: probe },
    { name: "api", image: "api:2", readinessProbe: probe },
  ];
  const now = [
    { name: "proxy", image: "proxy:1" },
    { name: "api", image: "api:1" },
    { ...web, image: "web:1.4.0" },
  ];
  expect(linesOf(changed("apps/Deployment", deployment(...old), deployment(...now)))).toEqual([
    "availability: 2 containers go back to older versions of their images",
    "availability: 2 containers lose their readiness probes",
  ]);
});

const template = (spec: unknown) => ({ template: { spec } });

test.each([
  ["/Pod", (spec: unknown) => ({ spec })],
  ["apps/Deployment", (spec: unknown) => ({ spec: template(spec) })],
  ["apps/StatefulSet", (spec: unknown) => ({ spec: template(spec) })],
  ["apps/DaemonSet", (spec: unknown) => ({ spec: template(spec) })],
  ["apps/ReplicaSet", (spec: unknown) => ({ spec: template(spec) })],
  ["batch/Job", (spec: unknown) => ({ spec: template(spec) })],
  ["batch/CronJob", (spec: unknown) => ({ spec: { jobTemplate: { spec: template(spec) } } })],
])("containers and initContainers of %s are checked", (id, objectWith) => {
  const pods = (image: string) => ({ containers: [{ ...web, image }], initContainers: [{ name: "init", image }] });
  const lines = linesOf(changed(id, objectWith(pods("web:2")), objectWith(pods("web:1"))));
  expect(lines.filter((line) => !line.startsWith("immutable"))).toEqual([
    "availability: 2 containers go back to older versions of their images",
  ]);
  expect(linesOf(created(id, objectWith(pods("web:latest"))))).toEqual([
    "availability: 2 containers have images whose tags can move to other versions",
  ]);
});

const toZero = ["availability: it is scaled to zero: no pod is left running"];
const toOne = ["availability: it is scaled down to one pod"];

test.each([
  [1, 0, toZero],
  [undefined, 0, toZero], // 1 by default
  [0, 0, []],
  [3, 2, []],
  [2, 1, toOne],
  [1, 1, []],
  [0, 1, []],
  [undefined, 1, []],
  [2, undefined, []], // then an autoscaler may decide
  [1, null, []],
  [1, "", []],
])("a change from %s to %s replicas is described", (before, after, lines) => {
  for (const id of ["apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet"]) {
    const object = changed(id, { spec: { replicas: before } }, { spec: { replicas: after } });
    expect(linesOf(object)).toEqual(lines);
  }
  expect(linesOf(created("apps/Deployment", { spec: { replicas: 0 } }))).toEqual([]);
});

test.each([
  [undefined, true, true],
  [false, true, true],
  [true, true, false],
  [true, false, false],
])("a CronJob whose suspend goes from %s to %s stops scheduling: %s", (before, after, stops) => {
  const lines = linesOf(changed("batch/CronJob", { spec: { suspend: before } }, { spec: { suspend: after } }));
  expect(lines).toEqual(stops ? ["availability: no jobs are scheduled until it is resumed"] : []);
  expect(linesOf(created("batch/CronJob", { spec: { suspend: true } }))).toEqual([]);
});

test("fields that other controllers own are not lost, though the project does not render them", () => {
  const live = deployment({ ...web, resources: { requests: { cpu: 1 } } });
  const rendered = JSON.stringify(deployment(web));
  expect(linesOf(changed("apps/Deployment", live, live, { rendered }))).toEqual([]);
});

test("where a state is missing, the changes are used", () => {
  const at = "spec.template.spec.containers[1]";
  const changes = [
    update("spec.replicas", 0, 2),
    update(`${at}.image`, "web:1.4.0", "web:1.5.0"),
    { type: "delete" as const, jsonPath: `${at}.readinessProbe`, oldValue: probe },
    { type: "delete" as const, jsonPath: `${at}.resources.limits.memory`, oldValue: 1 },
    { type: "insert" as const, jsonPath: "spec.template.spec.containers[2]", newValue: { name: "new", image: "new" } },
    update("status.odd[9999999999]", 1),
    update("spec..odd"),
  ];
  for (const remote of [undefined, "cut {", "[]", "null"]) {
    expect(linesOf(objectOf("apps/Deployment", { changes, remote, applied: "{}" }))).toEqual([
      "availability: it is scaled to zero: no pod is left running",
      "availability: a container goes back to an older version of its image",
      "availability: a container has an image whose tag can move to another version",
      "availability: a container loses its readiness probe",
      "availability: a container loses its memory limit",
    ]);
  }
});

test("no text contains what a user chose", () => {
  const chosen = (text: string) => ({
    [text]: text,
    name: text,
    image: `${text}:2`,
    resources: { limits: { [text]: 1, memory: text } },
  });
  const now = { name: "zqx", image: "zqx:1", securityContext: { capabilities: { add: ["ZQX"] } } };
  const lines = linesOf(changed("apps/Deployment", deployment(chosen("zqx")), deployment(now)));
  expect(lines).toHaveLength(3);
  expect(lines.join()).not.toMatch(/zqx/i);
});
