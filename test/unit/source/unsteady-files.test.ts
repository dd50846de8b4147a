import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findUnsteadyFiles } from "../../../src/source/unsteady-files.ts";
import { useFiles, useTempDir } from "../../support/world.ts";

async function look(files: Record<string, string>, path = "") {
  return findUnsteadyFiles(await useFiles(files), path);
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
  ["app.yml", "pick: {{ [[1, 2]] | map('random') | first }}"],
  ["app.yml", 'pick: {{ [[1, 2]] | map( "random" ) | first }}'],
  ["app.yml", "{% set f = 'random' %}pick: {{ [[1, 2]] | map(f) | first }}"],
  ["app.yml", "pick: {{ [[1, 2]] | map(args.filter) | first }}"],
  ["app.yml", "pick: {{ [[1, 2]] | map('ran' ~ 'dom') | first }}"],
  ["app.yml", "pick: {{ [[[1, 2]]] | map('map', args.filter) | first | first }}"],
  ["app.yml", "{% filter random %}abc{% endfilter %}"],
  ["app.yml", "at: {{ get_var('$.time').now() }}"],
  ["app.yml", "at: {{ get_var('time').now() }}"],
  ["app.yml", "at: {{ render('{{ ti' ~ 'me.now() }}') }}"],
  ["app.yml", "{{ ''['__cla' ~ 'ss__'] }}"],
  ["app.yml", "{{ '' | attr(args.name) }}"],
  ["deployment.yaml", "deployments:\n- {path: app, when: time.now().hour() > 3}"],
  ["deployment.yaml", "deployments:\n- path: app\n  when: ([[1, 2]] | map('random') | first) == 1"],
  ["deployment.yaml", "deployments:\n- path: app\n  when: get_var('time').now().hour() > 3"],
  ["app/kustomization.yaml", "resources:\n- {{ args.base }}"],
  ["app/kustomization.yaml", "resources:\n{% for base in bases %}\n  - {{ base }}\n{% endfor %}"],
  ["app/kustomization.yaml", "components: [{{ args.component }}]"],
  ["app/kustomization.yaml", "bases:\n- base\n- {{ args.base }}"],
  ["app/kustomization.yaml", '{"resources": ["{{ args.base }}"]}'],
  ["app/kustomization.yaml", "namespace: shop\n{{ args.field }}: [base]"],
  ["app/kustomization.yaml", "resources:\n- app.yaml\n{% include 'more.yaml' %}"],
  ["app/kustomization.yaml", "configMapGenerator:\n- name: x\n  files: ['{{ args.file }}']"],
  ["app/kustomization.yaml", "patches:\n- path: {{ args.patch }}"],
  ["app/Kustomization", "resources: [gh:org/repo, deploy@example.com:org/repo]"],
])("%s with %j may render differently another time", async (name, text) => {
  expect((await look({ [name]: text })).templates).toContain(name);
});

test.each([
  ["app.yml", "startup_time: 5\nimage: {{ args.time }}"],
  ["README.md", "It takes time. Random people say so: {time.now()}"],
  ["app.yml", "{{ args.random }} {{ images.get_image('x') }}"],
  ["app/kustomization.yaml", "resources:\n- app.yaml\nimages:\n- name: registry.example.com/app"],
  [".git/config", "{{ time.now() }}"],
  ["app.yml", "{{ items | map(attribute='name') | map('upper') | join(',') }}"],
  ["deployment.yaml", "deployments:\n- path: app\n  when: args.time == 'night'"],
  ["app/kustomization.yaml", "namespace: {{ args.ns }}\nresources:\n- app.yaml\nimages:\n- newTag: {{ args.tag }}"],
  ["app/kustomization.yaml", "resources:\n{% if args.ingress %}\n- ingress.yaml\n{% endif %}\n- app.yaml"],
  ["app/kustomization.yaml", "configMapGenerator:\n- name: {{ args.n }}\n  literals:\n  - color={{ args.color }}"],
])("%s with %j renders the same every time", async (name, text) => {
  expect(await look({ [name]: text })).toEqual({ templates: undefined, charts: undefined });
});

test.each([
  ["chart/templates/a.yaml", '{{ (lookup "v1" "Secret" "ns" "name").data }}'],
  ["chart/templates/a.yaml", '{{ now | date "2006" }}'],
  ["chart/templates/a.yaml", "{{ randAlphaNum 8 | b64enc }}"],
  ["chart/templates/a.yaml", '{{- $ca := genCA "ca" 365 -}}'],
  ["chart/charts/part-1.0.0.tgz", "packed"],
  ["app/helm-chart.yaml", "helmChart:\n  git: {url: https://example.com/charts.git}"],
  ["app/helm-chart.yml", "helmChart:\n  repo: https://example.com\n  skipPrePull: true"],
])("a chart with %s, %j, may render differently another time", async (name, text) => {
  const found = await look({ [name]: text });
  expect(found.charts).toContain(name);
  expect(found.templates).toBeUndefined();
});

test("the usual contents of charts render the same every time", async () => {
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
  ["app.yml", "at: {{ load_latest_git_commit('app.yml') }}"],
  ["deployment.yaml", "vars:\n- file: .git/HEAD"],
])("%s with %j may reference files outside the project of the project", async (name, text) => {
  expect((await look({ [`apps/shop/${name}`]: text }, "apps/shop")).outside).toContain(name);
});

test("a project is checked alone, without the files beside it", async () => {
  const files = {
    "apps/shop/app.yml": "image: registry.example.com/app:1.2.3 # and so on...\nhost: {{ args.name }}.example.com",
    "apps/shop/deployment.yaml": "deployments:\n- path: ./app",
    "apps/search/app.yml": "{{ time.now() }} ../..",
  };
  expect(await look(files, "apps/shop")).toEqual({});
});

test("a repository URL and git's settings in the project reference nothing outside it", async () => {
  const files = {
    "apps/shop/deployment.yaml": "deployments:\n- git: {url: https://git.example.com/org/base.git}",
    "apps/shop/.gitignore": "*.tmp",
  };
  expect((await look(files, "apps/shop")).outside).toBeUndefined();
});

test("a directory that does not exist contains nothing", async () => {
  expect(await look({ "app.yml": "{{ time.now() }}" }, "apps/.helm-charts")).toEqual({});
});

test("a link in place of a project may lead to files that another change edits", async () => {
  const root = await useTempDir();
  await mkdir(join(root, "real"));
  await symlink("real", join(root, "app"));
  expect(await findUnsteadyFiles(root, "app")).toEqual({ templates: "app is a link" });
});

test("a file with a million opening braces is read quickly", async () => {
  const text = "{{".repeat(1_000_000);
  expect((await look({ "a.yml": text })).templates).toBeUndefined();
});
