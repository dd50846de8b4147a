import { expect, test } from "vitest";
import { annotation } from "../../../src/model.ts";
import {
  formatIncludes,
  includedArtifacts,
  includedBy,
  includesOf,
  parseIncludes,
} from "../../../src/model/includes.ts";
import { aDeployment } from "../../support/deployments.ts";

const url = "https://git.example.com/org/library.git";

test("projects, variables and charts of other repositories are found, however deep", () => {
  const git = (name: string, ref?: unknown) => ({ url: `https://git.example.com/${name}`, ref });
  const deployment = {
    vars: [{ file: "local.yaml" }, { git: { ...git("vars"), path: "a.yaml" } }],
    deployments: [
      { path: "app" },
      { git: git("project", { branch: "main" }), renderedInclude: { deployments: [{ git: git("nested") }] } },
      { include: "more", renderedInclude: { vars: [{ gitFiles: git("files", { tag: "v1" }) }] } },
      { path: "chart", renderedHelmChartConfig: { helmChart: { git: git("chart", { branch: "main" }) } } },
      { path: "item", vars: [{ git: git("item", "stable") }] },
    ],
  };
  expect(formatIncludes(includesOf({ deployment }))?.split("\n")).toEqual([
    "https://git.example.com/chart refs/heads/main",
    "https://git.example.com/files refs/tags/v1",
    "https://git.example.com/item refs/heads/stable refs/tags/stable",
    "https://git.example.com/nested",
    "https://git.example.com/project refs/heads/main",
    "https://git.example.com/vars",
  ]);
});

test("a repository that is included twice is recorded once, and one that is pinned to a commit only beside another ref", () => {
  const pinned = { git: { url, ref: { commit: "1".repeat(40) } } };
  const deployments = [{ git: { url } }, { git: { url } }];
  expect(includesOf({ deployment: { deployments } })).toEqual([{ url, refs: [] }]);
  expect(includesOf({ deployment: { deployments: [pinned] } })).toEqual([]);
  const both = includesOf({ deployment: { deployments: [pinned, ...deployments] } });
  expect(both.map(({ refs }) => refs)).toEqual([[], ["1".repeat(40)]]);
});

test("artifacts are recorded with their tag, unless they are pinned to a digest", () => {
  const oci = (name: string, ref?: unknown) => ({ oci: { url: `oci://user:secret@registry.test/org/${name}`, ref } });
  const deployments = [
    oci("base"),
    oci("db", { tag: "v1" }),
    oci("pinned", { tag: "v1", digest: `sha256:${"0".repeat(64)}` }),
    { path: "more", renderedInclude: { deployments: [oci("nested", { tag: "main" })] } },
    { oci: { url: "https://registry.test/org/other" } },
    { oci: { url: "oci://registry.test/org/odd", ref: { tag: "two words" } } },
    { git: { url } },
  ];
  const text = formatIncludes(includesOf({ deployment: { deployments } }));
  expect(text?.split("\n")).toEqual([
    url,
    "oci://registry.test/org/base latest",
    "oci://registry.test/org/db v1",
    "oci://registry.test/org/nested main",
  ]);
  const deployment = aDeployment({ annotations: { [annotation.includes]: text ?? "" } });
  expect(includedArtifacts(deployment).map(({ url: artifact, ref }) => `${artifact}:${ref.tag}`)).toEqual([
    "oci://registry.test/org/base:latest",
    "oci://registry.test/org/db:v1",
    "oci://registry.test/org/nested:main",
  ]);
  expect(includedBy(deployment).size).toBe(1);
});

test("charts from a registry are recorded if their version is a tag that moves, and kluctl pulls them each time", () => {
  const chart = (fields: object) => ({ path: "chart", renderedHelmChartConfig: { helmChart: fields } });
  const repo = "oci://registry.test/charts/web";
  const pulled = { repo, skipPrePull: true };
  const recorded = (fields: object) => formatIncludes(includesOf({ deployment: { deployments: [chart(fields)] } }));
  expect(recorded({ ...pulled, chartVersion: "1.2" })).toBe(`${repo} 1.2`);
  expect(recorded({ ...pulled, chartVersion: "v1" })).toBe(`${repo} v1`);
  expect(recorded({ ...pulled, chartVersion: "1.2.3" })).toBeUndefined();
  expect(recorded({ repo, chartVersion: "1.2" })).toBeUndefined(); // a copy in the project
  const index = { repo: "https://charts.test", chartName: "web", skipPrePull: true, chartVersion: "1.2" };
  expect(recorded(index)).toBeUndefined();
  expect(recorded({ ...pulled, chartVersion: 1 })).toBeUndefined();
});

test("logins in URLs are not recorded", () => {
  const deployments = [{ git: { url: "https://ann:secret@git.example.com/org/library.git" } }];
  expect(formatIncludes(includesOf({ deployment: { deployments } }))).not.toMatch(/ann|secret/);
});

test.each([
  [{}],
  [{ deployment: null }],
  [{ deployment: { deployments: "none", vars: [null, 7, { git: "x" }, { git: { url: 7 } }] } }],
  [{ deployment: { deployments: [{ git: { url: "two words" } }, { git: { url: "x".repeat(501) } }] } }],
])("what names no repository is ignored: %j", (document) => {
  expect(formatIncludes(includesOf(document))).toBeUndefined();
});

test("any text is a valid annotation, and what is written is read again", () => {
  const includes = [
    { url, refs: ["refs/heads/main"] },
    { url: "git@git.example.com:org/other", refs: [] },
  ];
  const text = formatIncludes(includes);
  expect(parseIncludes(text)).toEqual(expect.arrayContaining(includes));
  expect(parseIncludes(`  ${url}\t refs/heads/main \r\n\n`)).toEqual([{ url, refs: ["refs/heads/main"] }]);
  expect(parseIncludes(undefined)).toEqual([]);
  expect(includedBy({ annotations: { [annotation.includes]: `nonsense\n:::\n${url}` } }).size).toBeGreaterThan(0);
  expect(parseIncludes(`${url}\n`.repeat(10_000)).length).toBe(100);
});
