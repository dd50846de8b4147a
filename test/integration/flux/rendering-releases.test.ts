/** Charts of HelmReleases rendered by the real program, in its jail. test/foreign compares it with Helm. */
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { RenderedObjectsOfRelease, RenderedRelease, ReleaseToRender } from "../../../src/ports.ts";
import { useFluxRenderer } from "../../support/flux-renderer.ts";
import { useFiles } from "../../support/world.ts";

const { signal } = new AbortController();

const chartYaml = (fields: object = {}) => stringify({ apiVersion: "v2", name: "web", version: "0.1.0", ...fields });

/** A ConfigMap with each of these values of a chart. */
const template = (data: Readonly<Record<string, string>>) =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-settings\ndata:\n${Object.entries(data)
    .map(([key, value]) => `  ${key}: {{ ${value} | toString | quote }}\n`)
    .join("")}`;

interface ReleaseFields {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly chart?: Readonly<Record<string, unknown>>;
}

function aRelease(
  path: string,
  { spec = {}, chart = {} }: ReleaseFields = {},
  rest: Partial<ReleaseToRender> = {},
): ReleaseToRender {
  const sourceRef = { kind: "GitRepository", name: "shop" };
  const resource = {
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: { name: "web", namespace: "shop" } },
    spec: { interval: "1m", chart: { spec: { chart: path, sourceRef, ...chart } }, ...spec },
  };
  return { resource, objects: [], isUpgrade: true, ...rest };
}

async function renderAll(root: string, releases: readonly ReleaseToRender[]): Promise<readonly RenderedRelease[]> {
  return (await useFluxRenderer()).renderReleases({ root, releases }, signal);
}

function whole(rendered: RenderedRelease | undefined): RenderedObjectsOfRelease {
  if (rendered === undefined || "error" in rendered) throw new Error(rendered?.error ?? "nothing was rendered");
  return rendered;
}

const dataOf = (rendered: RenderedRelease | undefined) => whole(rendered).objects[0]?.["data"];

const nameOf = ({ metadata }: Readonly<Record<string, unknown>>) => (metadata as { readonly name: string }).name;

test("values are merged as helm-controller merges them", async () => {
  const root = await useFiles({
    "charts/web/Chart.yaml": chartYaml(),
    "charts/web/values.yaml": stringify({
      a: "chart",
      b: "chart",
      c: "chart",
      d: { e: "chart", f: "chart" },
      gone: "x",
    }),
    "charts/web/templates/all.yaml": template({
      ...{ a: ".Values.a", b: ".Values.b", c: ".Values.c", e: ".Values.d.e", f: ".Values.d.f", gone: ".Values.gone" },
      list: ".Values.list | default (list)",
    }),
  });
  const valuesFrom = [
    { kind: "ConfigMap", name: "first" },
    { kind: "ConfigMap", name: "second", valuesKey: "own.yaml" },
    { kind: "Secret", name: "login", valuesKey: "f", targetPath: "d.f" },
    { kind: "ConfigMap", name: "missing", optional: true },
  ];
  const objects = [
    { kind: "ConfigMap", name: "first", data: { "values.yaml": stringify({ b: "first", c: "first", list: [1, 2] }) } },
    { kind: "ConfigMap", name: "second", data: { "own.yaml": stringify({ c: "second", list: [3] }) } },
    { kind: "Secret", name: "login", data: { f: "secret" } },
  ] as const;
  const spec = { valuesFrom, values: { d: { e: "inline" }, gone: null } };
  const required = { ...spec, valuesFrom: [{ kind: "ConfigMap", name: "missing" }] };
  const [rendered, failed] = await renderAll(root, [
    aRelease("charts/web", { spec }, { objects }),
    aRelease("charts/web", { spec: required }),
  ]);
  expect(dataOf(rendered)).toEqual({
    ...{ a: "chart", b: "first", c: "second", e: "inline", f: "secret", list: "[3]", gone: "<nil>" },
  });
  expect(failed).toMatchObject({
    error: expect.stringContaining("could not resolve ConfigMap chart values reference 'shop/missing'") as string,
    chart: { name: "web", version: "0.1.0" },
  });
});

test("names, labels, patches, hooks, tests and definitions are those of helm-controller", async () => {
  const hook = (name: string, event: string) =>
    stringify({ apiVersion: "v1", kind: "Pod", metadata: { name, annotations: { "helm.sh/hook": event } } });
  const root = await useFiles({
    "charts/web/Chart.yaml": chartYaml(),
    "charts/web/templates/all.yaml": template({
      ...{ release: "printf `%s/%s` .Release.Namespace .Release.Name", upgrade: ".Release.IsUpgrade" },
      ...{ version: ".Chart.Version", found: 'len (lookup "v1" "Namespace" "" "")', host: 'getHostByName "localhost"' },
    }),
    "charts/web/templates/hooks.yaml": [hook("before", "pre-upgrade"), hook("first", "pre-install"), hook("check", "test")].join("---\n"), // prettier-ignore
    "charts/web/templates/NOTES.txt": "thank you",
    "charts/web/crds/thing.yaml": stringify({
      ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
      ...{ metadata: { name: "things.example.com" }, spec: { group: "example.com" } },
    }),
  });
  const patch = "- op: add\n  path: /data/patched\n  value: 'yes'\n";
  const spec = {
    targetNamespace: "web-prod",
    commonMetadata: { labels: { team: "a" }, annotations: { owner: "ann" } },
    postRenderers: [{ kustomize: { patches: [{ target: { kind: "ConfigMap" }, patch }] } }],
  };
  const [upgraded, installed, skipped, long, tested] = await renderAll(root, [
    aRelease("./charts/web", { spec }, { versionMetadata: "abc" }),
    aRelease("/charts/web", { spec }, { isUpgrade: false }),
    aRelease("../charts/web/", { spec: { upgrade: { crds: "Skip", disableHooks: true } } }),
    aRelease("charts/web", { spec: { releaseName: "a".repeat(60) } }),
    aRelease("charts/web", { spec: { test: { enable: true } } }),
  ]);
  const origin = { "helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "shop" };
  const { objects, hooks, crds, chart, files } = whole(upgraded);
  expect(objects).toEqual([
    {
      ...{ apiVersion: "v1", kind: "ConfigMap" },
      metadata: { name: "web-prod-web-settings", labels: { ...origin, team: "a" }, annotations: { owner: "ann" } },
      data: { release: "web-prod/web-prod-web", upgrade: "true", version: "0.1.0+abc", found: "0", host: "", patched: "yes" }, // prettier-ignore
    },
  ]);
  const eventsOf = (one: RenderedRelease | undefined) =>
    Object.fromEntries(whole(one).hooks.map(({ object, events }) => [nameOf(object), events]));
  expect(hooks.find(({ object }) => nameOf(object) === "before")?.object["metadata"]).toMatchObject({ labels: { ...origin, team: "a" } }); // prettier-ignore
  expect(crds.map(({ metadata }) => metadata)).toEqual([{ name: "things.example.com", labels: origin }]);
  expect(chart).toEqual({ name: "web", version: "0.1.0+abc" });
  expect(files).toContain("charts/web/templates/NOTES.txt");
  expect(eventsOf(installed)).toEqual({ before: ["pre-upgrade"], first: ["pre-install"] });
  expect(eventsOf(skipped)).toEqual({ first: ["pre-install"] });
  expect(eventsOf(tested)).toEqual({ before: ["pre-upgrade"], first: ["pre-install"], check: ["test"] });
  expect(whole(skipped).crds).toEqual([]);
  expect(whole(long).objects[0]?.["metadata"]).toMatchObject({
    name: expect.stringMatching(/^a{40}-[0-9a-f]{12}-settings$/) as string,
  });
});

test("definitions of a subchart that is disabled are not among those of the chart", async () => {
  const root = await useFiles({
    "charts/web/Chart.yaml": chartYaml({ dependencies: [{ name: "sub", version: "0.1.0", condition: "sub.enabled" }] }),
    "charts/web/charts/sub/Chart.yaml": chartYaml({ name: "sub" }),
    "charts/web/charts/sub/crds/thing.yaml": stringify({
      ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
      ...{ metadata: { name: "things.example.com" }, spec: { group: "example.com" } },
    }),
  });
  const of = (enabled: boolean) => aRelease("charts/web", { spec: { values: { sub: { enabled } } } });
  const [enabled, disabled] = await renderAll(root, [of(true), of(false)]);
  expect([enabled, disabled].map((one) => whole(one).crds.length)).toEqual([1, 0]);
});

test("a chart sees the version and the APIs of the cluster", async () => {
  const root = await useFiles({
    "web/Chart.yaml": chartYaml({ kubeVersion: "~1.31.0" }),
    "web/templates/all.yaml": template({
      ...{
        version: ".Capabilities.KubeVersion.Minor",
        monitors: '.Capabilities.APIVersions.Has "example.com/v1/Monitor"',
      },
    }),
  });
  const capabilities = { kubeVersion: "v1.31.4", apiVersions: ["v1", "example.com/v1", "example.com/v1/Monitor"] };
  const [rendered, assumed] = await renderAll(root, [aRelease("web", {}, { capabilities }), aRelease("web")]);
  expect(dataOf(rendered)).toEqual({ version: "31", monitors: "true" });
  expect(assumed).toMatchObject({ error: expect.stringContaining("chart requires kubeVersion: ~1.31.0") as string });
});

test.each(["nohooks", "separate"])(
  "with the strategy %s, hooks are post-rendered apart, or not at all",
  async (strategy) => {
    const job = stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "a", annotations: { "helm.sh/hook": "pre-upgrade" } } }); // prettier-ignore
    const root = await useFiles({
      "web/Chart.yaml": chartYaml(),
      "web/templates/all.yaml": `${job}---\n${stringify({ apiVersion: "v1", kind: "Pod", metadata: { name: "a" } })}`,
    });
    const [rendered] = await renderAll(root, [aRelease("web", { spec: { postRenderStrategy: strategy } })]);
    const label = (object: Readonly<Record<string, unknown>> | undefined) =>
      (object?.["metadata"] as { labels?: Record<string, string> } | undefined)?.labels?.[
        "helm.toolkit.fluxcd.io/name"
      ];
    expect(label(whole(rendered).objects[0])).toBe("web");
    expect(label(whole(rendered).hooks[0]?.object)).toBe(strategy === "separate" ? "web" : undefined);
  },
);

test("a chart is packed as source-controller packs it: values files, dependencies in the repository, ignored files", async () => {
  const root = await useFiles({
    "charts/web/Chart.yaml": chartYaml({
      dependencies: [{ name: "common", version: "1.x", repository: "file://../common", alias: "shared" }],
    }),
    "charts/web/values.yaml": stringify({ a: "chart", b: "chart" }),
    "charts/web/templates/all.yaml": template({ a: ".Values.a", b: '.Values.b | default "none"' }),
    "charts/web/templates/ignored.yaml": "{{ fail `rendered` }}",
    "charts/web/templates/left-out.yaml": "{{ fail `rendered` }}",
    "charts/web/.helmignore": "templates/ignored.yaml\n",
    ".sourceignore": "left-out.yaml\n",
    "charts/common/Chart.yaml": chartYaml({ name: "common", version: "1.2.0" }),
    "charts/common/templates/all.yaml": stringify({ apiVersion: "v1", kind: "Secret", metadata: { name: "shared" } }),
    "values/prod.yaml": stringify({ a: "prod" }),
  });
  const chart = { valuesFiles: ["charts/web/values.yaml", "./values/prod.yaml", "none.yaml"] };
  const [rendered, missing, listed] = await renderAll(root, [
    aRelease("charts/web", { chart: { ...chart, ignoreMissingValuesFiles: true } }),
    aRelease("charts/web", { chart }),
    aRelease("charts/web", {}, { onlyFiles: true }),
  ]);
  expect(
    whole(rendered)
      .objects.map(({ kind }) => kind)
      .toSorted(),
  ).toEqual(["ConfigMap", "Secret"]);
  const settings = whole(rendered).objects.find(({ kind }) => kind === "ConfigMap");
  expect(settings?.["data"]).toEqual({ a: "prod", b: "chart" });
  expect(missing).toMatchObject({ error: expect.stringContaining("no values file found at path '/none.yaml'") as string }); // prettier-ignore
  expect(whole(listed)).toMatchObject({ objects: [], chart: { name: "web", version: "0.1.0" } });
  expect(whole(listed).files).toContain("charts/common/templates/all.yaml");
});

test("what a branch may put into a chart fails with its reason, reads nothing else, and affects no other release", async () => {
  const outside = await useFiles({ "Chart.yaml": chartYaml(), "schema.json": "secret" });
  const bomb = Array.from({ length: 10 }, (_, i) => `a${i}: &a${i} [${Array(10).fill(i === 0 ? "x" : `*a${i - 1}`)}]`); // prettier-ignore
  const chart = (name: string, files: Readonly<Record<string, string>>, fields: object = {}) => ({
    [`${name}/Chart.yaml`]: chartYaml(fields),
    ...Object.fromEntries(Object.entries(files).map(([path, text]) => [`${name}/${path}`, text])),
  });
  const remote = (repository: string) => ({ dependencies: [{ name: "redis", version: "1.0.0", repository }] });
  const root = await useFiles({
    ...chart("good", { "templates/all.yaml": template({ a: ".Chart.Name" }) }),
    ...chart("remote", {}, remote("https://charts.example.com")),
    ...chart("registry", {}, remote("oci://registry.example.com/charts")),
    ...chart("above", {}, remote(`file://../../../../../../..${outside}`)),
    ...chart("schema", { "values.schema.json": JSON.stringify({ $ref: `file://${outside}/schema.json` }) }),
    ...chart("bomb", { "values.yaml": bomb.join("\n") }),
    ...chart("printed", { "templates/all.yaml": bomb.join("\n") }),
    ...chart("endless", { "templates/all.yaml": '{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}' }),
    ...chart("files", { "templates/all.yaml": `{{ .Files.Get "../../etc/passwd" | required "nothing read" }}` }),
    ...chart("environment", { "templates/all.yaml": "{{ env `HOME` }}" }),
    ...chart("library", {}, { type: "library" }),
    ...chart("newer", {}, { kubeVersion: ">=99.0.0" }),
    ...chart("large", { "files/a.txt": "x".repeat(6 * 1024 ** 2) }),
    "empty/values.yaml": "a: b",
  });
  await symlink(outside, join(root, "link"));
  await mkdir(join(root, "linked/templates"), { recursive: true });
  await symlink(join(root, "good/Chart.yaml"), join(root, "linked/Chart.yaml"));
  const expected: Readonly<Record<string, string | RegExp>> = {
    remote: "its dependency redis comes from https://charts.example.com, and previews send no requests",
    registry: "its dependency redis comes from oci://registry.example.com/charts",
    above: "failed to add local dependency 'redis': no chart found",
    schema: "the values.schema.json of chart web refers to another file or address",
    bomb: "bomb/values.yaml: its YAML aliases expand to more than",
    printed: "its YAML aliases expand to more than",
    endless: "error calling include",
    files: "nothing read",
    environment: 'function "env" not defined',
    library: "library charts are not installable",
    newer: "chart requires kubeVersion: >=99.0.0",
    large: "cannot load file large/files/a.txt as file size",
    empty: "Chart.yaml file is missing",
    link: "link is a symbolic link, which Flux leaves out of artifacts",
    linked: "Chart.yaml file is missing",
    none: "no chart found: stat none: no such file or directory",
  };
  const names = Object.keys(expected);
  const [good, ...rendered] = await renderAll(
    root,
    ["good", ...names].map((path) => aRelease(path)),
  );
  expect(dataOf(good)).toEqual({ a: "web" });
  for (const [at, name] of names.entries()) {
    const one = rendered[at];
    expect.soft(`${name}: ${one && "error" in one ? one.error : "rendered"}`).toContain(expected[name]);
    expect.soft(JSON.stringify(one)).not.toContain(outside);
  }
  expect(rendered.map((one) => "error" in one && one.isUnsupported).slice(0, 4)).toEqual([true, true, false, true]);
});
