import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { findUnsteadyFiles } from "../../../src/source/unsteady-files.ts";
import { useTempDir } from "../../support/world.ts";

async function look(files: Record<string, string>, path = "") {
  const root = await useTempDir();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), text);
  }
  return findUnsteadyFiles(root, path);
}

test.each([
  ["app.yml", "at: {{ time.now() }}"],
  ["app.yml", "{% set clock = time %}\nat: {{ clock.now() }}"],
  ["app.yml", "at: {{ f('}}', time.utcnow()) }}"],
  ["app.yml", "pick: {{ [1, 2] | random }}"],
  ["app.yml", "{{ lipsum() }}"],
  ["app.yml", "{{ ''.__class__ }}"],
  ["app.yml", "{{ never closed: time.now()"],
  ["deployment.yaml", "deployments:\n- path: app\n  when: time.now().hour > 3"],
  ["app/kustomization.yaml", "resources:\n- https://example.com/base.yaml"],
  ["app/kustomization.yml", "resources:\n- github.com/org/repo/deploy?ref=v1"],
])("%s with %j may render differently another time", async (name, text) => {
  expect((await look({ [name]: text })).templates).toContain(name);
});

test.each([
  ["app.yml", "startup_time: 5\nimage: {{ args.time }}"],
  ["README.md", "It takes time. Random people say so: {time.now()}"],
  ["app.yml", "{{ args.random }} {{ images.get_image('x') }}"],
  ["app/kustomization.yaml", "resources:\n- app.yaml\nimages:\n- name: registry.example.com/app"],
  [".git/config", "{{ time.now() }}"],
])("%s with %j does not", async (name, text) => {
  expect(await look({ [name]: text })).toEqual({ templates: undefined, charts: undefined });
});

test.each([
  ["chart/templates/a.yaml", '{{ (lookup "v1" "Secret" "ns" "name").data }}'],
  ["chart/templates/a.yaml", '{{ now | date "2006" }}'],
  ["chart/templates/a.yaml", "{{ randAlphaNum 8 | b64enc }}"],
  ["chart/templates/a.yaml", '{{- $ca := genCA "ca" 365 -}}'],
  ["chart/charts/part-1.0.0.tgz", "packed"],
])("a chart with %s, %j, may render differently another time", async (name, text) => {
  const found = await look({ [name]: text });
  expect(found.charts).toContain(name);
  expect(found.templates).toBeUndefined();
});

test("what charts usually have is steady", async () => {
  const text = `{{/* Don't look it up now */}}
{{- if .Capabilities.APIVersions.Has "policy/v1" }}
name: {{ include "chart.fullname" . }}-{{ .Values.now }}
{{- end }}`;
  expect(await look({ "chart/templates/a.yaml": text })).toEqual({ templates: undefined, charts: undefined });
});

test("a link may lead anywhere", async () => {
  const root = await useTempDir();
  await symlink("/etc/hostname", join(root, "link.yml"));
  expect(await findUnsteadyFiles(root, "")).toEqual({ templates: "link.yml is a link" });
});

test.each([
  ["deployment.yaml", "deployments:\n- include: ../../base"],
  ["deployment.yaml", "vars:\n- file: '..'"],
  ["app/kustomization.yaml", "resources: [../../base/app]"],
  ["app.yml", '{% include "." ~ "./x.yml" %}'],
  ["deployment.yaml", 'deployments:\n- include: "\\x2e\\x2E/base"'],
  ["vars.yml", "path: ENC[AES256_GCM,data:x]"],
])("%s with %j may name what lies outside of the project", async (name, text) => {
  expect((await look({ [`apps/shop/${name}`]: text }, "apps/shop")).outside).toContain(name);
});

test("a project is looked at alone, and knows nothing of what lies beside it", async () => {
  const files = {
    "apps/shop/app.yml": "image: registry.example.com/app:1.2.3 # and so on...\nhost: {{ args.name }}.example.com",
    "apps/shop/deployment.yaml": "deployments:\n- path: ./app",
    "apps/search/app.yml": "{{ time.now() }} ../..",
  };
  expect(await look(files, "apps/shop")).toEqual({});
});

test("a link in place of a project may lead to where another change is made", async () => {
  const root = await useTempDir();
  await mkdir(join(root, "real"));
  await symlink("real", join(root, "app"));
  expect(await findUnsteadyFiles(root, "app")).toEqual({ templates: "app is a link" });
});

test("a file of a million openings is read in no time", async () => {
  const text = "{{".repeat(1_000_000);
  expect((await look({ "a.yml": text })).templates).toBeUndefined();
});
