/** What a branch may put into its repository: each attempt fails with a reason that names it, and none affects another. */
import { mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { FluxToRender } from "../../../src/ports.ts";
import { errorOf, objectsOf, toRender, useFluxRenderer } from "../../support/flux-renderer.ts";
import { configMap } from "../../support/flux-render-cases.ts";
import { useFiles } from "../../support/world.ts";

const { signal } = new AbortController();
const kustomization = (fields: object) => ({ "kustomization.yaml": stringify(fields) });
const plugin = (fields: object) => stringify({ metadata: { name: "x" }, ...fields });
const remote = "remote files are not read for previews, only those of the repository";
const link = "is a symbolic link, which Flux leaves out of artifacts";
const functionOf = (text: string) => ({
  metadata: { name: "x", annotations: { "config.kubernetes.io/function": text } },
});

/** Each alias stands for ten of the one before. */
const bomb = Array.from({ length: 10 }, (_, i) => `a${i}: &a${i} [${Array(10).fill(i === 0 ? "x" : `*a${i - 1}`)}]`);

interface Attempt {
  readonly files: Readonly<Record<string, string>>;
  readonly links?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly error: string;
}

const attempts: Readonly<Record<string, Attempt>> = {
  url: { files: kustomization({ resources: ["https://example.com/a.yaml"] }), error: `url/kustomization.yaml: "https://example.com/a.yaml": ${remote}` }, // prettier-ignore
  ssh: { files: kustomization({ resources: ["git@example.com:a/b.git"] }), error: `"git@example.com:a/b.git": ${remote}` }, // prettier-ignore
  user: { files: kustomization({ resources: ["ada@example.com:a/b.git"] }), error: remote },
  local: { files: kustomization({ resources: ["file:///var/lib/a.git"] }), error: `local/kustomization.yaml: "file:///var/lib/a.git": ${remote}` }, // prettier-ignore
  component: { files: kustomization({ components: ["github.com/a/b//c?ref=main"] }), error: `component/kustomization.yaml: "github.com/a/b//c?ref=main": ${remote}` }, // prettier-ignore
  deeper: {
    files: {
      ...kustomization({ resources: ["base"] }),
      "base/kustomization.yaml": stringify({ bases: ["https://a/b"] }),
    },
    error: `deeper/base/kustomization.yaml: "https://a/b": ${remote}`,
  },
  schema: { files: kustomization({ openapi: { path: "https://a/b" } }), error: `schema/kustomization.yaml: "https://a/b": ${remote}` }, // prettier-ignore
  generated: { files: kustomization({ secretGenerator: [{ name: "a", files: ["k=https://a/b"] }] }), error: `generated/kustomization.yaml: "https://a/b": ${remote}` }, // prettier-ignore
  configured: {
    files: {
      ...kustomization({ transformers: ["t.yaml"] }),
      "t.yaml": plugin({
        apiVersion: "builtin",
        kind: "PatchTransformer",
        path: "https://a/b",
        target: { kind: "Pod" },
      }),
    },
    error: `Get "https://a/b": ${remote}`,
  },
  spec: { files: { "a.yaml": configMap("a") }, spec: { components: ["https://a/b"] }, error: "component path 'https://a/b' must be local and relative" }, // prettier-ignore
  charts: { files: kustomization({ helmCharts: [{ name: "a" }] }), error: "charts/kustomization.yaml: helmCharts: Flux does not inflate Helm charts" }, // prettier-ignore
  chart: {
    files: { ...kustomization({ generators: ["g.yaml"] }), "g.yaml": plugin({ apiVersion: "builtin", kind: "HelmChartInflationGenerator" }) }, // prettier-ignore
    error: "must specify --enable-helm",
  },
  exec: {
    files: { ...kustomization({ generators: ["g.yaml"] }), "g.yaml": plugin({ apiVersion: "v1", kind: "Run", ...functionOf("exec: {path: ./run.sh}") }) }, // prettier-ignore
    error: "unable to load external plugin 'Run'",
  },
  container: {
    files: { ...kustomization({ generators: ["g.yaml"] }), "g.yaml": plugin({ apiVersion: "v1", kind: "Run", ...functionOf("container: {image: a}") }) }, // prettier-ignore
    error: "unable to load external plugin 'Run'",
  },
  absolute: {
    files: kustomization({ resources: ["/etc/hostname"] }),
    error: "open /etc/hostname: outside of the source",
  },
  parents: { files: kustomization({ configMapGenerator: [{ name: "a", files: ["../../../../etc/hostname"] }] }), error: "open /etc/hostname: outside of the source" }, // prettier-ignore
  file: { files: kustomization({ resources: ["a.yaml"] }), links: { "a.yaml": "/etc/hostname" }, error: `file/a.yaml ${link}` }, // prettier-ignore
  directory: { files: kustomization({ resources: ["a"] }), links: { a: "/etc" }, error: `directory/a ${link}` },
  below: { files: kustomization({ configMapGenerator: [{ name: "a", files: ["a/hostname"] }] }), links: { a: "/etc" }, error: `below/a ${link}` }, // prettier-ignore
  circle: { files: { ...kustomization({ resources: ["a"] }), "a/kustomization.yaml": stringify({ resources: ["../a"] }) }, error: "cycle detected" }, // prettier-ignore
  bomb: { files: { "a.yaml": `${configMap("a")}${bomb.join("\n")}\n` }, error: "bomb/a.yaml: its YAML aliases expand to more than 1000000 values" }, // prettier-ignore
  itself: { files: { "a.yaml": "a: &a\n  b: *a\n" }, error: "itself/a.yaml: its YAML aliases expand to more than" },
  nested: {
    files: { "a.yaml": `${configMap("a", {})}more: ${"[".repeat(20_000)}` },
    error: "exceeded max depth of 10000",
  },
  deep: {
    files: {
      "a.yaml": `${plugin({ apiVersion: "example.com/v1", kind: "Thing" })}spec: ${"[".repeat(600)}${"]".repeat(600)}`,
    },
    error: "Thing/x is nested deeper than 500 levels",
  },
  large: {
    files: {
      ...kustomization({
        configMapGenerator: Array.from({ length: 40 }, (_, i) => ({ name: `a${i}`, files: ["large.txt"] })),
      }),
      "large.txt": "x".repeat(900_000),
    },
    error: "the objects of all Kustomizations together are larger than 32 MiB",
  },
};

test("each attempt fails with its reason, and a good Kustomization after all of them is rendered", async () => {
  const files = Object.entries(attempts).flatMap(([name, { files }]) =>
    Object.entries(files).map(([path, text]) => [join(name, path), text]),
  );
  const root = await useFiles({ ...Object.fromEntries(files), "good/a.yaml": configMap("a") });
  for (const [name, { links = {} }] of Object.entries(attempts)) {
    for (const [path, target] of Object.entries(links)) {
      await mkdir(dirname(join(root, name, path)), { recursive: true });
      await symlink(target, join(root, name, path));
    }
  }
  const kustomizations: FluxToRender[] = [
    ...Object.entries(attempts).map(([name, { spec }]) => toRender(name, { path: name, ...spec })),
    toRender("good", { path: "good" }),
  ];
  const renderer = await useFluxRenderer();
  const rendered = await renderer.render({ root, kustomizations }, signal);
  for (const [i, [name, { error }]] of Object.entries(attempts).entries()) {
    expect.soft(`${name}: ${errorOf(rendered[i])}`).toContain(error);
    expect.soft(errorOf(rendered[i])).not.toContain(root);
  }
  expect(objectsOf(rendered.at(-1))).toHaveLength(1);
});
