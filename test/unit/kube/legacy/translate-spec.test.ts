import { expect, test } from "vitest";
import type { FoundGitRepository } from "../../../../src/apis/flux-kluctl/git-repository.ts";
import { parseGitRepository } from "../../../../src/apis/flux-kluctl/git-repository.ts";
import { referencesOf, translateSpec } from "../../../../src/apis/flux-kluctl/translate-spec.ts";

const url = "https://git.test/org/shop.git";
const base = { interval: "5m", deployInterval: "never", source: { url } };

function repository(spec: object = {}, namespace = "flux-system"): FoundGitRepository {
  return parseGitRepository({
    metadata: { namespace, name: "shop", resourceVersion: "7" },
    spec: { url, ref: { branch: "main" }, ...spec },
  });
}

function translate(
  spec: object,
  gitRepository?: FoundGitRepository,
  secrets: Record<string, Record<string, string>> = {},
) {
  const helmSecrets = new Map(Object.entries(secrets));
  const result = translateSpec({ ...spec }, { namespace: "shop", gitRepository, helmSecrets });
  return { ...result, lost: result.notes.filter(({ kind }) => kind === "lost").map(({ field }) => field) };
}

test("fields with the same name in both APIs are copied, and null counts as not set", () => {
  const words = {
    retryInterval: "1m",
    timeout: "2m",
    suspend: true,
    target: "prod",
    targetNameOverride: "p",
    context: "c",
    args: { a: null, b: 1 },
    dryRun: true,
    noWait: true,
    forceApply: true,
    replaceOnError: true,
    forceReplaceOnError: true,
    abortOnError: true,
    includeTags: ["a"],
    excludeTags: ["b"],
    includeDeploymentDirs: ["c"],
    excludeDeploymentDirs: ["d"],
    deployMode: "poke-images",
    validate: false,
    prune: true,
    delete: true,
    serviceAccountName: "deployer",
    kubeConfig: { secretRef: { name: "kc" } },
    decryption: { provider: "sops", secretRef: { name: "keys" } },
  };
  const { spec, problems, lost } = translate({ ...base, ...words });
  expect(spec).toEqual({ source: { git: { url } }, interval: "5m", ...words });
  expect([problems, lost]).toEqual([[], []]);
  expect(translate({ ...base, args: null, target: null }).spec).not.toHaveProperty("args");
});

test("a GitRepository gives URL, ref and login, and the login is for its host, or for any host with ssh", () => {
  const sourceRef = { kind: "GitRepository", name: "shop", namespace: "flux-system" };
  const given = { interval: "5m", sourceRef, path: "./deploy" };
  expect(referencesOf(given).gitRepository).toEqual({ namespace: "flux-system", name: "shop" });
  const https = translate(given, repository({ secretRef: { name: "login" } }));
  expect(https.problems).toEqual([]);
  expect(https.spec).toMatchObject({
    source: { git: { url, ref: { branch: "main" }, path: "./deploy" } },
    credentials: { git: [{ host: "git.test", secretRef: { name: "login" } }] },
  });
  const ssh = repository({ url: "ssh://git@git.test/org/shop", ref: { tag: "v1" }, secretRef: { name: "key" } });
  expect(translate(given, ssh).spec).toMatchObject({
    source: { git: { ref: { tag: "v1" } } },
    credentials: { git: [{ host: "*" }] },
  });
  expect(translate(given, repository({ ref: undefined })).spec).toMatchObject({ source: { git: { url } } });
  expect(translate(given, repository({ verify: { mode: "head" } })).lost).toEqual(["spec.sourceRef"]);
});

test.each<[string, object, FoundGitRepository, RegExp]>([
  ["another kind", { kind: "Bucket", name: "shop" }, undefined, /spec\.sourceRef\.kind: "Bucket" is not supported/],
  ["a missing one", { kind: "GitRepository", name: "x" }, undefined, /GitRepository shop\/x does not exist/],
  ["no Flux", { kind: "GitRepository", name: "x" }, "not-served", /this cluster has no GitRepositories/],
  [
    "no rights",
    { kind: "GitRepository", name: "x" },
    "forbidden",
    /is not allowed to read GitRepository shop\/x; grant it/,
  ],
  [
    "semver",
    { kind: "GitRepository", name: "shop" },
    repository({ ref: { semver: "1.x" } }),
    /spec\.ref\.semver is not/,
  ],
  [
    "a commit",
    { kind: "GitRepository", name: "shop" },
    repository({ ref: { commit: "1" } }),
    /spec\.ref\.commit is not/,
  ],
])("%s is refused with a reason", (_, sourceRef, found, words) => {
  expect(translate({ interval: "5m", sourceRef }, found).problems.join()).toMatch(words);
});

test("a spec without a source, and an invalid spec, are refused with a reason", () => {
  expect(translate({ interval: "5m" }).problems).toEqual([expect.stringContaining("spec.source: has no url")]);
  expect(translate({ ...base, deployInterval: 5 }).problems).toEqual([expect.stringContaining("spec.deployInterval")]);
});

test("source has its own path and login, and is refused beside a sourceRef or with spec.path set", () => {
  const source = { url, ref: { branch: "b" }, path: "p", secretRef: { name: "s" } };
  const alone = translate({ ...base, source, path: "" });
  expect(alone.problems).toEqual([]);
  expect(alone.spec).toMatchObject({
    source: { git: { url, ref: { branch: "b" }, path: "p" } },
    credentials: { git: [{ host: "git.test", secretRef: { name: "s" } }] },
  });

  const sourceRef = { kind: "GitRepository", name: "shop" };
  expect(translate({ ...base, source, sourceRef }, repository()).problems).toEqual([
    "spec: has both source and sourceRef; remove one of them",
  ]);
  expect(translate({ ...base, source, path: "other" }).problems).toEqual([
    "spec.path: belongs to spec.sourceRef; with spec.source, write spec.source.path",
  ]);
});

test("without deployInterval every reconciliation deploys, and `never` becomes a very long interval", () => {
  expect(translate({ interval: "5m", source: { url } }).spec).toMatchObject({ deployInterval: "5m" });
  expect(translate(base).spec).not.toHaveProperty("deployInterval");
  expect(translate({ ...base, deployInterval: "1h", validateInterval: "never" }).spec).toMatchObject({
    deployInterval: "1h",
    validateInterval: "87600h",
  });
});

test("a renamed context becomes the context that exists", () => {
  const renameContexts = [{ oldContext: "default", newContext: "prod" }];
  expect(translate({ ...base, renameContexts }).spec).toMatchObject({ context: "default" });
  expect(translate({ ...base, renameContexts, context: "prod" }).spec).toMatchObject({ context: "default" });
  expect(translate({ ...base, renameContexts, context: "other" }).spec).toMatchObject({ context: "other" });
  const odd = [{ oldContext: "admin", newContext: "prod" }];
  expect(translate({ ...base, renameContexts: odd }).problems.join()).toMatch(/no context "admin" to rename/);
});

test("Helm repository logins are matched by the url in their Secret", () => {
  const helmCredentials = [{ secretRef: { name: "charts" } }];
  const { spec } = translate({ ...base, helmCredentials }, undefined, {
    charts: { url: "https://charts.test/stable/" },
  });
  expect(spec).toMatchObject({
    credentials: { helm: [{ host: "charts.test", path: "stable", secretRef: { name: "charts" } }] },
  });
  // This would take an hour if the time grew with the square of the length.
  const slashes = `a${"/".repeat(1_000_000)}b`;
  const odd = translate({ ...base, helmCredentials }, undefined, {
    charts: { url: `https://charts.test/${slashes}//` },
  });
  expect(odd.spec).toMatchObject({ credentials: { helm: [{ path: slashes }] } });
  expect(translate({ ...base, helmCredentials }).problems.join()).toMatch(/secret shop\/charts does not exist/);
  const byId = translate({ ...base, helmCredentials }, undefined, { charts: { credentialsId: "x" } });
  expect(byId.problems.join()).toMatch(/credentialsId is not enough/);
  expect(referencesOf({ ...base, helmCredentials }).helmSecrets).toEqual(["charts"]);
});

test("dependsOn becomes the annotation", () => {
  const { annotations } = translate({ ...base, dependsOn: [{ name: "db" }, { name: "dns", namespace: "platform" }] });
  expect(annotations).toEqual({ "towline.dev/depends-on": "shop/db, platform/dns" });
});

test("fields without a counterpart are named", () => {
  const { lost, spec } = translate({
    ...base,
    deployOnChanges: false,
    updateImages: true,
    registrySecrets: [{ name: "r" }],
    images: [{ image: "a", resultImage: "b", versionFilter: "x" }],
    downscale: {},
  });
  expect(lost).toEqual([
    "spec.images",
    "spec.deployOnChanges",
    "spec.updateImages",
    "spec.registrySecrets",
    "spec.downscale",
  ]);
  expect(spec).toMatchObject({ images: [{ image: "a", resultImage: "b" }] });
});
