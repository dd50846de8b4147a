import { expect, test } from "vitest";
import { PrepareError, SourceError } from "../../../src/errors.ts";
import { annotation, type DeploymentStatus, type Run } from "../../../src/model.ts";
import { aResult, anObject, aSummary } from "../../support/deployments.ts";
import { fakeReadIdentity, fakeSecrets } from "../../support/fakes.ts";
import { aPreviewWorld, base, inFolder, named } from "../../support/preview.ts";

const decryption = { secretName: "keys" };
const keys = { "main.agekey": "AGE-SECRET-KEY-1" };
const older = "d".repeat(40);
/** A deploy of the base, of all objects. */
const whole = aSummary({ document: { gitInfo: { commit: base }, commandInfo: { command: "deploy" } } });
const changes = [{ type: "update", jsonPath: "data.a", oldValue: "canary-value", newValue: "open" }] as const;

function aWorld(overrides: Parameters<typeof named>[1] = {}, settings = { confined: true }) {
  const status = { lastDeployResult: whole };
  const deployment = named("prod", { spec: { ...inFolder("app"), decryption }, status, ...overrides });
  const readIdentity = fakeReadIdentity({ secrets: fakeSecrets({ "shop/keys": keys }) });
  const world = aPreviewWorld([deployment], { settings, readIdentity });
  return { ...world, projects: () => world.kluctl.runs.map(({ run }) => (run as Run).projectDir) };
}

test("without keys a project is rendered with placeholders, and compared with the base", async () => {
  const { run, sources, kluctl, projects, previews } = aWorld();
  sources.nextMerge.encrypted = new Map([
    ["app/same.yaml", "1"],
    ["app/other.yaml", "2"],
    ["elsewhere/secret.yaml", "3"],
  ]);
  sources.nextMerge.encryptedBefore = new Map([
    ["app/same.yaml", "1"],
    ["app/other.yaml", "1"],
    ["app/gone.yaml", "1"],
  ]);
  expect(await run()).toEqual({ kind: "done" });
  expect(projects()).toEqual(["/stubbed/app", "/base/app"]);
  for (const { run } of kluctl.runs) expect(run.decryption).toBeUndefined();
  expect(previews()[0]?.encrypted).toEqual({ files: 2, changed: ["app/gone.yaml", "app/other.yaml"] });
});

test("a confined run gets the list of hosts that it may reach", async () => {
  const { run, sources, kluctl } = aWorld();
  sources.nextMerge.hosts = ["charts.example.com"];
  await run();
  const hosts = ["git.example.com", "charts.example.com"];
  expect(kluctl.runs.map(({ run }) => (run as Run).hosts)).toEqual([hosts, hosts]); // of the merge, and of its base
});

test("without encrypted files a project is compared like any other", async () => {
  const { run, sources, projects, previews } = aWorld();
  sources.nextMerge.stubbed = (of) => {
    if (of !== undefined) throw new SourceError("path-not-found", "there is no directory app");
  };
  await run();
  expect(projects()).toEqual(["/stubbed/app"]);
  expect(previews()[0]).toMatchObject({ counts: { changed: 1 } });
  expect(previews()[0]?.encrypted).toBeUndefined();
});

test("a file that was encrypted before the merge counts as well", async () => {
  const { run, sources, projects } = aWorld();
  sources.nextMerge.encryptedBefore = new Map([["app/gone.yaml", "1"]]);
  await run();
  expect(projects()).toEqual(["/stubbed/app", "/base/app"]);
});

test("files that were encrypted in the commit that is still deployed count as well", async () => {
  const deployed = "c".repeat(40);
  const { run, sources, kluctl, previews } = aWorld({ status: { observedCommit: deployed } });
  sources.nextMerge.encryptedOf = new Map([[deployed, new Map([["app/gone.yaml", "1"]])]]);
  kluctl.answers.diff = aResult({ objects: [anObject({ changes, rendered: "{}" })] });
  await run();
  expect(previews()[0]).toMatchObject({ state: "done", counts: { changed: 0 } });
  expect(JSON.stringify(previews())).not.toContain("canary");
});

test("files that were encrypted in the last deployed commit count, although a newer one was checked since", async () => {
  const lastDeployResult = aSummary({ document: { gitInfo: { commit: older } } });
  const { run, sources, kluctl, previews } = aWorld({ status: { observedCommit: "c".repeat(40), lastDeployResult } });
  sources.nextMerge.encryptedOf = new Map([[older, new Map([["app/gone.yaml", "1"]])]]);
  kluctl.answers.diff = aResult({ objects: [anObject({ changes, rendered: "{}" })] });
  await run();
  expect(previews()[0]).toMatchObject({ state: "done", counts: { changed: 0 } });
  expect(JSON.stringify(previews())).not.toContain("canary");
});

test("what was deployed from another path cannot be searched, so it may have been encrypted", async () => {
  const lastDeployResult = aSummary({ document: { gitInfo: { commit: older } } });
  const { run, sources, kluctl, projects, previews } = aWorld({ status: { lastDeployResult } });
  sources.nextMerge.stubbed = (of) => {
    if (of === older) throw new SourceError("path-not-found", "there is no directory app");
  };
  kluctl.answers.diff = aResult({ objects: [anObject({ changes, rendered: "{}" })] });
  await run();
  expect(projects()).toEqual(["/stubbed/app", "/base/app"]);
  expect(JSON.stringify(previews())).not.toContain("canary");
});

test.each<[string, Partial<DeploymentStatus>]>([
  ["the last deploy had errors", { lastDeployResult: aSummary({ errors: 1 }) }],
  ["the last deploy was a dry run", { lastDeployResult: aSummary({ document: { commandInfo: { dryRun: true } } }) }],
  ["no deploy is known", {}],
  ["nobody knows what was deployed", { lastDeployResult: aSummary({ document: { gitInfo: { commit: "" } } }) }],
  [
    "only images were replaced",
    { lastDeployResult: aSummary({ document: { ...whole.document, commandInfo: { command: "poke-images" } } }) },
  ],
  [
    "the last deploy was one of a part",
    {
      lastDeployResult: whole,
      deployRequestResult: {
        request: { requestValue: "1", overridesPatch: { spec: { includeTags: ["a"] } } },
        startTime: "2026-01-01T00:00:00Z",
        reconcileId: "r",
        resultId: whole.id,
      },
    },
  ],
])("if %s, values in the cluster may be those of any earlier commit", async (_, status) => {
  const { run, kluctl, projects, previews } = aWorld({ status });
  kluctl.answers.diff = aResult({ objects: [anObject({ changes, rendered: "{}" })] });
  await run();
  expect(projects()).toEqual(["/stubbed/app", "/base/app"]);
  expect(previews()[0]).toMatchObject({ state: "done" });
  expect(JSON.stringify(previews())).not.toContain("canary");
});

test("if the base cannot be rendered, the values in the cluster are hidden", async () => {
  const { run, sources, kluctl, previews } = aWorld();
  sources.nextMerge.encrypted = new Map([["app/a.yaml", "1"]]);
  const object = anObject({ changes, rendered: "{}" });
  const diff = kluctl.diff.bind(kluctl);
  let runs = 0;
  kluctl.diff = (...args) => {
    kluctl.answers.diff = ++runs === 1 ? aResult({ objects: [object] }) : new PrepareError("it is broken");
    return diff(...args);
  };
  await run();
  expect(runs).toBe(2);
  expect(previews()[0]).toMatchObject({ state: "done", counts: { changed: 1 } });
  expect(JSON.stringify(previews())).not.toContain("canary");
});

test.each([
  ["the server hands out keys", {}, { confined: false }],
  ["the resource asks for it", { annotations: { [annotation.previewDecrypt]: "true" } }, { confined: true }],
])("a preview decrypts if %s", async (_, overrides, settings) => {
  const { run, kluctl, projects } = aWorld(overrides, settings);
  await run();
  expect(projects()).toEqual(["/merge/app"]);
  expect(kluctl.runs[0]?.run.decryption?.data).toEqual(keys);
});

test("a file that cannot have a placeholder is explained", async () => {
  const { run, kluctl, previews } = aWorld();
  kluctl.answers.diff = new PrepareError("vars.yaml: Failed to get the data key required to decrypt the SOPS file.");
  await run();
  expect(previews()[0]?.failure).toMatch(
    /Failed to get the data key[^]*Previews do not decrypt[^]*towline\.dev\/preview-decrypt/,
  );
});
