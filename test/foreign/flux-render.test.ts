/**
 * What is rendered for previews equals what Flux's own kustomize-controller applies. If it is applied again by the
 * controller's name, no object changes: neither a field that only the controller set nor one that only we render.
 */
import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parseAllDocuments, stringify } from "yaml";
import { fluxNamespace } from "../../dev/parts/flux.ts";
import { packageRoot } from "../../dev/package-root.ts";
import { findTools } from "../../dev/tools.ts";
import type { FluxRendered } from "../../src/ports.ts";
import {
  aGitRepository,
  type FluxResource,
  fluxTools,
  isFetched,
  pathOf,
  useFlux,
} from "../support/flux-controllers.ts";
import {
  brokenCases,
  ignoreOfSource,
  type RenderCase,
  renderCases,
  sharedFiles,
} from "../support/flux-render-cases.ts";
import { errorOf, objectsOf, toRender, useFluxRenderer } from "../support/flux-renderer.ts";
import { becomes, type ForeignDesk, useForeignDesk } from "../support/foreign-desk.ts";
import { useFiles, useGitServer, useTempDir } from "../support/world.ts";

const run = promisify(execFile);
const { signal } = new AbortController();
/** A controller that applies two dozen Kustomizations, or a compiler. */
const patient = { timeout: 600_000 };
const all = Object.entries({ ...renderCases, ...brokenCases });

type Rendered = Readonly<Record<string, unknown>> & {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
};

test("what is rendered is what kustomize-controller applies, or fails in the same words", patient, async () => {
  const desk = await useForeignDesk([...fluxTools]);
  await useFlux(desk);
  const root = await useSource(desk);
  await desk.apply(...all.map(([name]) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } })));
  await desk.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "overlay-target" } });
  for (const [name, { from = [] }] of all) {
    const sources = from.map(({ kind, data }, i) => ({
      ...{ apiVersion: "v1", kind, metadata: { name: `${name}-${i}`, namespace: fluxNamespace } },
      ...(kind === "Secret" ? { stringData: data } : { data }),
    }));
    if (sources.length > 0) await desk.apply(...sources);
  }
  const kustomizations = all.map(([name, one]) => {
    const variables = Object.assign({}, ...(one.from ?? []).map(({ data }) => data)) as Record<string, string>;
    return toRender(name, specOf(name, one), variables);
  });
  await desk.apply(...kustomizations.map(({ resource }) => resource));

  const renderer = await useFluxRenderer();
  const rendered = await renderer.render({ root, ignore: ignoreOfSource, kustomizations }, signal);
  const results = new Map(all.map(([name], i) => [name, rendered[i]]));
  for (const name of Object.keys(renderCases)) await isSame(desk, name, results.get(name));
  for (const name of Object.keys(brokenCases)) {
    const { message } = await readyOf(desk, name);
    expect.soft(`${name}: ${errorOf(results.get(name))}`).toBe(`${name}: ${withoutDirectory(message)}`);
  }
});

test("the program is built from the modules of Flux's controllers, and its own tests pass", patient, async () => {
  const tools = await findTools(["towline-flux", "kustomize-controller", "helm-controller"], { say: () => undefined });
  const own = await modulesOf(tools["towline-flux"]);
  const controllers = [await modulesOf(tools["kustomize-controller"]), await modulesOf(tools["helm-controller"])];
  const others = [...own].filter(([module, version]) => {
    const known = controllers.flatMap((modules) => modules.get(module) ?? []);
    return known.length > 0 && !known.includes(version);
  });
  expect(others).toEqual([]);
  await run("go", ["test", "-vet=off", "./..."], { cwd: join(packageRoot, "flux-render") });
});

test(
  "a chart renders what `helm template` renders, besides the labels that helm-controller adds",
  patient,
  async () => {
    const { helm4 } = await findTools(["helm4"], { say: () => undefined });
    const root = await useFiles(aChart);
    await writeFile(join(root, "own.yaml"), stringify({ level: "own", nested: { b: null, c: [3] } }));
    const { stdout } = await run(helm4, ["template", "web", join(root, "charts/web"), "--namespace", "shop", "--is-upgrade", "--include-crds", "--no-hooks", "--skip-tests", "--values", join(root, "own.yaml"), "--kube-version", "1.32.2"], { env: { HOME: root } }); // prettier-ignore
    const expected = parseAllDocuments(stdout).map((document): unknown => document.toJS());
    const renderer = await useFluxRenderer();
    const sourceRef = { kind: "GitRepository", name: "shop" };
    const resource = {
      ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: { name: "web", namespace: "shop" } },
      spec: {
        ...{ interval: "1m", chart: { spec: { chart: "charts/web", sourceRef } } },
        values: { level: "own", nested: { b: null, c: [3] } },
      },
    };
    const capabilities = { kubeVersion: "v1.32.2", apiVersions: [] };
    const releases = [{ resource, objects: [], isUpgrade: true, capabilities }];
    const [rendered] = await renderer.renderReleases({ root, releases }, signal);
    if (rendered === undefined || "error" in rendered) throw new Error(rendered?.error);
    const objects = [...rendered.crds, ...rendered.objects].map(withoutOrigin);
    expect(sorted(objects)).toEqual(sorted(expected));
    const names = expected.map((one) => (one as Rendered).metadata.name);
    expect(names.toSorted()).toEqual(["part", "things.example.com", "web-0", "web-1"]);
  },
);

function withoutOrigin(object: Readonly<Record<string, unknown>>): unknown {
  const { labels = {}, ...metadata } = object["metadata"] as { labels?: Record<string, string> };
  const own = Object.entries(labels).filter(([name]) => !name.startsWith("helm.toolkit.fluxcd.io/"));
  return { ...object, metadata: { ...metadata, ...(own.length > 0 && { labels: Object.fromEntries(own) }) } };
}

function sorted(objects: readonly unknown[]): readonly string[] {
  return objects.map((object) => stringify(object, { sortMapEntries: true })).sort();
}

const aChart = {
  "charts/web/Chart.yaml": stringify({
    ...{ apiVersion: "v2", name: "web", version: "0.1.0", appVersion: "7" },
    dependencies: [{ name: "part", version: "1.0.0", condition: "part.enabled" }, { name: "unused", version: "1.0.0", condition: "unused.enabled" }], // prettier-ignore
  }),
  "charts/web/values.yaml": stringify({ level: "chart", nested: { a: 1, b: 2, c: [1, 2] }, part: { size: 3 }, unused: { enabled: false } }), // prettier-ignore
  "charts/web/templates/_helpers.tpl":
    '{{- define "web.labels" }}\nchart: {{ .Chart.Name }}-{{ .Chart.Version }}\n{{- end }}',
  "charts/web/templates/all.yaml": `{{- range $i := until 2 }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $.Release.Name }}-{{ $i }}
  labels: {{- include "web.labels" $ | nindent 4 }}
data:
  values.yaml: |
    {{- toYaml $.Values.nested | nindent 4 }}
  level: {{ tpl "{{ .Values.level }}" $ | quote }}
  upgrade: {{ $.Release.IsUpgrade | quote }}
  kubernetes: {{ $.Capabilities.KubeVersion.Version }}
  found: {{ lookup "v1" "Secret" $.Release.Namespace "none" | toJson | quote }}
{{- end }}
`,
  "charts/web/templates/test.yaml":
    'apiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {"helm.sh/hook": test}}\n',
  "charts/web/crds/thing.yaml": stringify({ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata: { name: "things.example.com" }, spec: { group: "example.com" } }), // prettier-ignore
  "charts/web/charts/part/Chart.yaml": stringify({ apiVersion: "v2", name: "part", version: "1.0.0" }),
  "charts/web/charts/part/templates/a.yaml":
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: part}\ndata: {size: {{ .Values.size | quote }}}\n",
  "charts/web/charts/unused/Chart.yaml": stringify({ apiVersion: "v2", name: "unused", version: "1.0.0" }),
  "charts/web/charts/unused/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unused}\n",
};

/** Returns the checkout that the source-controller fetches. */
async function useSource(desk: ForeignDesk): Promise<string> {
  const repo = await (await useGitServer()).repo("cases");
  const files = Object.fromEntries(
    all.flatMap(([name, { files }]) => Object.entries(files).map(([path, text]) => [`${name}/${path}`, text])),
  );
  const link = join(repo.dir, "generated/link.yaml");
  await mkdir(dirname(link), { recursive: true });
  await symlink("a.yaml", link);
  await repo.git("add", "--all");
  const commit = await repo.push({ ...files, ...sharedFiles });
  const source = aGitRepository({ name: "shop", url: repo.url });
  await desk.apply({ ...source, spec: { ...source.spec, ignore: ignoreOfSource } });
  await isFetched(desk, "shop", commit);
  const root = await useTempDir();
  await repo.git("checkout-index", "--all", `--prefix=${root}/`);
  return root;
}

function specOf(name: string, { spec = {}, from = [] }: RenderCase): Record<string, unknown> {
  const { path = "", postBuild, ...rest } = spec as { path?: string; postBuild?: object };
  const substituteFrom = from.map(({ kind }, i) => ({ kind, name: `${name}-${i}` }));
  return {
    ...{ path: join(name, path), targetNamespace: name, ...rest },
    ...(postBuild && { postBuild: { ...postBuild, ...(from.length > 0 && { substituteFrom }) } }),
  };
}

async function isSame(desk: ForeignDesk, name: string, rendered: FluxRendered | undefined): Promise<void> {
  const { status, message, inventory } = await readyOf(desk, name);
  expect.soft(`${name}: ${status} ${message}`).toMatch(new RegExp(`^${name}: True Applied`));
  if (status !== "True") return;
  const objects = objectsOf(rendered) as readonly Rendered[];
  expect.soft({ [name]: objects.map(toId) }).toEqual({ [name]: inventory });
  if (objects.length === 0) return;
  const file = JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
  await desk.type(`cat > ${name}.json <<'END'\n${file}\nEND`);
  const live = await desk.type(`kubectl get --filename ${name}.json --output json`);
  const apply = "kubectl apply --server-side --force-conflicts --field-manager kustomize-controller --dry-run=server";
  const applied = await desk.type(`${apply} --filename ${name}.json --output json`);
  expect.soft({ [name]: toItems(applied) }).toEqual({ [name]: toItems(live) });
}

/** As Flux's inventory names it. */
function toId({ apiVersion, kind, metadata: { name, namespace = "" } }: Rendered): string {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  return `${namespace}_${name.replaceAll(":", "__")}_${group}_${kind}`;
}

function toItems(json: string): unknown[] {
  const read = JSON.parse(json) as { readonly kind: string; readonly items: unknown[] };
  return read.kind === "List" ? read.items : [read];
}

async function readyOf(desk: ForeignDesk, name: string) {
  const read = () => desk.find<FluxResource>(pathOf("Kustomization", name));
  const conditionOf = (found: FluxResource | undefined) =>
    found?.status?.conditions?.find(({ type }) => type === "Ready");
  await becomes(async () => ["True", "False"].includes(conditionOf(await read())?.status ?? ""), true);
  const found = await read();
  const { status = "", message = "" } = conditionOf(found) ?? {};
  return { status, message, inventory: (found?.status?.inventory?.entries ?? []).map(({ id }) => id) };
}

/** The directory into which the controller unpacked the artifact. */
function withoutDirectory(message: string): string {
  return message.replaceAll(/\/[^\s'"]*\/kustomization-\d+\/?/g, "");
}

async function modulesOf(program: string): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await run("go", ["version", "-m", program], { maxBuffer: 16 * 1024 ** 2 });
  const lines = stdout.split("\n").map((line) => line.trim().split("\t"));
  return new Map(lines.filter(([what]) => what === "dep").map(([, module = "", version = ""]) => [module, version]));
}
