/** Checks of the workflows beyond those of actionlint. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseDockerfile, toPairs } from "../../../dev/image/dockerfile.ts";

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly "timeout-minutes"?: number;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly permissions: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const root = join(import.meta.dirname, "../../..");
const folder = join(root, ".github/workflows");
const workflows = readdirSync(folder).map((name) => {
  const text = readFileSync(join(folder, name), "utf8");
  return { ...(parse(text) as Workflow), name, text };
});
const release = workflows.find(({ name }) => name === "release.yml")!;
const jobs = workflows.flatMap((workflow) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ ...job, name: `${workflow.name}: ${name}` })),
);

test("actions are pinned to a commit, not to a tag that can be moved", () => {
  for (const { name, text } of workflows) {
    const used = text.split("\n").filter((line) => /\buses:/.test(line));
    for (const line of used) expect(line, name).toMatch(/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d/);
  }
});

test("every job names its permissions, has a timeout, and leaves no login in its checkout", () => {
  for (const { permissions } of workflows) expect(permissions).toEqual({});
  for (const { name, permissions, steps, ...job } of jobs) {
    expect(permissions?.["contents"], name).toBeDefined();
    expect(job["timeout-minutes"], name).toBeDefined();
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    for (const step of checkouts) expect(step.with, name).toEqual({ "persist-credentials": false });
  }
  const writes = jobs.flatMap(({ name, permissions = {} }) =>
    Object.entries(permissions).flatMap(([what, may]) => (may === "write" ? [`${name} ${what}`] : [])),
  );
  expect(writes).toEqual([
    "release.yml: index id-token",
    "release.yml: index attestations",
    "release.yml: chart id-token",
    "release.yml: npm id-token",
    "release.yml: release contents",
  ]);
});

test("no script contains text that others may write, and no workflow names a registry", () => {
  for (const { name, steps } of jobs) {
    for (const { run = "" } of steps) expect(run, name).not.toContain("${{");
  }
  for (const { text } of workflows) expect(text).not.toMatch(/\b(?:ghcr\.io|docker\.io|quay\.io|npmjs)\b/);
});

test("nothing is published before the tests have passed, and the release comes last", () => {
  const before = (name: string): string[] =>
    [release.jobs[name]?.needs ?? []].flat().flatMap((one) => [one, ...before(one)]);
  for (const name of Object.keys(release.jobs).filter((one) => one !== "test")) expect(before(name)).toContain("test");
  expect(new Set(before("release"))).toEqual(new Set(["test", "image", "index", "chart", "npm"]));
});

test("a release needs a digest for every base image and a snapshot day for Debian's packages", () => {
  const steps = release.jobs["test"]?.steps ?? [];
  const check = steps.findIndex(({ run }) => run?.includes("npm run pin -- --check"));
  expect(steps[check]?.run).toMatch(/"\$APT_SNAPSHOT" \| grep --extended-regexp --line-regexp '\[0-9\]\{8\}T/);
  expect(check).toBeLessThan(steps.findIndex(({ run }) => run === "npm test"));
  expect(release.text).toContain("APT_SNAPSHOT=${{ vars.APT_SNAPSHOT }}");
});

test("the image is built for both architectures, with its arguments, an SBOM and provenance, and is signed by digest", () => {
  const build = release.jobs["image"]?.steps.find(({ uses }) => uses?.startsWith("docker/build-push-action@"))?.with;
  expect(build).toMatchObject({
    sbom: true,
    provenance: "mode=max",
    outputs: expect.stringContaining("push-by-digest"),
  });
  expect(release.text.match(/architecture: (\w+)/g)).toEqual(["architecture: amd64", "architecture: arm64"]);
  const { stages } = parseDockerfile(readFileSync(join(root, "Dockerfile"), "utf8"));
  const args = stages.flatMap(({ instructions }) =>
    instructions.filter(({ name }) => name === "ARG").flatMap(({ text }) => Object.keys(toPairs(text))),
  );
  const given = String(build?.["build-args"]).matchAll(/^(\w+)=/gm);
  for (const [, name] of given) expect(args).toContain(name);
  const signed = release.jobs["index"]?.steps.findIndex(({ run }) => run?.includes("cosign sign")) ?? -1;
  const tagged = release.jobs["index"]?.steps.findIndex(({ run }) => run?.includes('--tag "$IMAGE:$version"')) ?? -1;
  expect(signed).toBeGreaterThan(0);
  expect(tagged).toBeGreaterThan(signed);
  expect(
    release.jobs["npm"]?.steps.some(({ run }) => run?.includes("npm publish") && run.includes("--provenance")),
  ).toBe(true);
});
