import fc from "fast-check";
import { expect, test } from "vitest";
import { parseDeployment } from "../../../src/apis/kluctl/custom-resource.ts";
import { type Deployment, isMalformed } from "../../../src/model.ts";

const metadata = { namespace: "apps", name: "shop", uid: "1", resourceVersion: "7", generation: 2 };
const source = { git: { url: "https://git.test/org/shop.git" } };
const sound = { interval: "5m", source };
const oci = { url: "oci://registry.test/org/shop" };

function parseSpec(spec: unknown): Deployment["spec"] {
  const parsed = parseDeployment({ metadata, spec });
  if (parsed === undefined || isMalformed(parsed)) throw new Error(parsed?.problem);
  return parsed.spec;
}

function problemsOf(spec: unknown): string[] {
  const parsed = parseDeployment({ metadata, spec });
  return parsed !== undefined && isMalformed(parsed) ? parsed.problem.split("\n") : [];
}

test("a resource with only the required fields gets the defaults", () => {
  expect(parseDeployment({ metadata, spec: sound })).toMatchObject({
    key: { namespace: "apps", name: "shop" },
    repo: "git.test/org/shop",
    generation: 2,
    status: { conditions: [] },
    spec: {
      source: { url: "https://git.test/org/shop.git", ref: {}, path: "" },
      intervalMs: 300_000,
      deployMode: "full-deploy",
      validate: true,
      prune: false,
      suspend: false,
      manual: false,
      images: [],
    },
  });
});

test("null counts as not set, except in the arguments", () => {
  const spec = parseSpec({ ...sound, target: null, images: null, prune: null, args: { replicas: null } });
  expect(spec).toMatchObject({ target: undefined, images: [], prune: false, args: { replicas: null } });
});

test("an OCI artifact is followed by tag or digest, and belongs to no repository", () => {
  const ref = { tag: "v1.2", digest: `sha256:${"0f".repeat(32)}` };
  const deployment = parseDeployment({
    metadata,
    spec: { ...sound, source: { oci: { ...oci, ref, path: "./prod/" } } },
  });
  expect(deployment).toMatchObject({ spec: { source: { kind: "oci", ...oci, ref, path: "prod" } } });
  expect(deployment).toHaveProperty("repo", undefined);
  expect(parseSpec({ ...sound, source: { oci: { ...oci, ref: { tag: "" } } } }).source).toMatchObject({ ref: {} });
});

test("of several sources the first counts, as in kluctl", () => {
  expect(parseSpec({ ...sound, source: { ...source, oci, url: "https://git.test/x/y" } }).source.kind).toBe("git");
  expect(parseSpec({ ...sound, source: { oci, url: "https://git.test/x/y" } }).source.kind).toBe("oci");
});

test("logins keep their order and their patterns", () => {
  const secretRef = { name: "s" };
  const credentials = {
    oci: [{ registry: "a", repository: "b/**", secretRef }, { secretRef }],
    helm: [{ host: "a", path: "b/*", secretRef }],
  };
  expect(parseSpec({ ...sound, credentials })).toMatchObject({
    ociCredentials: [{ registry: "a", repository: "b/**", secretName: "s" }, { secretName: "s" }],
    helmCredentials: [{ host: "a", path: "b/*", secretName: "s" }],
  });
});

test("the deprecated inline source still works", () => {
  const inline = { url: "ssh://git@git.test/org/shop", ref: { tag: "v1.2" }, path: "/clusters//prod/" };
  expect(parseSpec({ ...sound, source: inline }).source).toEqual({
    kind: "git",
    url: "ssh://git@git.test/org/shop",
    ref: { tag: "v1.2" },
    path: "clusters/prod",
  });
});

test("all problems of a spec are reported at once, each with its path and what to do", () => {
  const spec = {
    interval: "5x",
    prune: "yes",
    target: "",
    deployMode: "canary",
    includeTags: [1],
    serviceAccountName: " ",
    decryption: { provider: "vault", secretRef: { name: "" } },
    source: { git: { url: "file:///etc", ref: { branch: "-x", tag: "v1" }, path: "../.." } },
  };
  expect(problemsOf(spec)).toEqual([
    'spec.decryption.provider: "vault" is not one of sops',
    'spec.decryption.secretRef.name: "" references no Secret',
    'spec.interval: "5x" is not a duration; use e.g. 30s, 5m or 1h30m',
    'spec.serviceAccountName: " " is not the name of a service account; set a valid name, or remove the field for the default',
    "spec.target: is empty; set a name or remove the field",
    "spec.includeTags.0: 1 is not a string",
    'spec.deployMode: "canary" is not one of full-deploy, poke-images',
    'spec.prune: "yes" is not true or false',
    "spec.source.git.ref: has branch and tag; keep one of them",
    'spec.source.git.ref.branch: "-x" is not the short name of a branch, e.g. main',
    'spec.source.git.path: "../.." is not a directory inside the repository; use a path without .., e.g. clusters/prod',
    "spec.source.git.url: is not the URL of a git repository; use e.g. https://host/org/repo.git or ssh://git@host/org/repo.git",
  ]);
});

test.for([
  [{ ...sound, interval: undefined }, "spec.interval: is missing"],
  [{ ...sound, interval: "0s" }, 'spec.interval: "0s" is too short'],
  [{ ...sound, timeout: "9999999h" }, 'spec.timeout: "9999999h" is not a duration'],
  [{ ...sound, validateInterval: "5m and a bit" }, 'spec.validateInterval: "5m and a bit" is not a duration'],
  [{ ...sound, source: undefined }, "spec.source: is missing"],
  [{ ...sound, source: {} }, "missing source spec"],
  [{ ...sound, source: { oci: { url: "https://host.test/it" } } }, "spec.source.oci.url: is not the URL of an OCI"],
  [{ ...sound, source: { oci: { ...oci, ref: { tag: "a/b" } } } }, 'spec.source.oci.ref.tag: "a/b" is not a tag'],
  [{ ...sound, source: { oci: { ...oci, ref: { digest: "sha256:0" } } } }, 'spec.source.oci.ref.digest: "sha256:0" is'],
  [{ ...sound, source: { oci: { ...oci, path: "../x" } } }, 'spec.source.oci.path: "../x" is not a directory'],
  [{ ...sound, source: { ...source, secretRef: { name: "" } } }, 'spec.source.secretRef.name: "" references no Secret'],
  [{ ...sound, serviceAccountName: "" }, 'spec.serviceAccountName: "" is not the name of a service account'],
  [{ ...sound, serviceAccountName: "a:b" }, 'spec.serviceAccountName: "a:b" is not the name of a service account'],
  [
    { ...sound, kubeConfig: {} },
    "spec.kubeConfig.secretRef: is missing; set the name of the Secret with the kubeconfig",
  ],
  [{ ...sound, kubeConfig: { secretRef: { name: "" } } }, 'spec.kubeConfig.secretRef.name: "" references no Secret'],
  [
    { ...sound, sourceOverrides: [{ repoKey: "a", url: "b" }] },
    'spec.sourceOverrides[0].repoKey: "a" is not a repository key; use',
  ],
  [{ ...sound, helmCredentials: [{}] }, "spec.helmCredentials: an entry references no Secret; set secretRef.name, or"],
  [{ ...sound, credentials: { helm: [{ host: "h", secretRef: {} }] } }, "spec.credentials.helm.0.secretRef.name: is"],
  [{ ...sound, credentials: { oci: [{}] } }, "spec.credentials.oci.0.secretRef: is missing"],
  [{ ...sound, credentials: { git: [{ secretRef: {} }] } }, "spec.credentials.git.0.secretRef.name: is missing"],
  [
    { ...sound, source: { git: { ...source.git, ref: { commit: "3f2c1ab" } } } },
    'spec.source.git.ref.commit: "3f2c1ab" is not the full 40 digits',
  ],
  [undefined, "spec.source: is missing"],
  [[], "spec: [] is not a map of fields"],
  ["?", 'spec: "?" is not a map of fields'],
] as const)("%j is refused: %s", ([spec, problem]) => {
  expect(problemsOf(spec).join("\n")).toContain(problem);
});

test("the report is limited, however many problems there are", () => {
  const problems = problemsOf({ ...sound, includeTags: Array(5_000).fill(7) });
  expect(problems).toHaveLength(21);
  expect(problems.at(-1)).toBe("and 4980 more");
});

test("a password in a URL is not repeated", () => {
  expect(problemsOf({ ...sound, source: { git: { url: "ftp://me:hunter2@git.test/x" } } }).join()).not.toContain(
    "hunter2",
  );
});

test.for(["main", "feature/a-b", "release-1.2", "ünïcode"])("%s is a branch", (branch) => {
  expect(parseSpec({ ...sound, source: { git: { ...source.git, ref: { branch } } } }).source.ref).toEqual({ branch });
});

test.for(["--upload-pack=x", "a..b", "a b", "a\nb", "a.lock", ".a", "a/.b", "refs/", "a~1", "@", "a@{1}", "a//b"])(
  "%j is not a branch",
  (branch) => {
    expect(problemsOf({ ...sound, source: { git: { ...source.git, ref: { branch } } } })).toHaveLength(1);
  },
);

test("the readable parts of a status are read, and the rest counts as absent", () => {
  const status = {
    observedGeneration: "two",
    observedCommit: "abc",
    conditions: [
      { type: "Ready", status: "True", reason: "R", message: "m", lastTransitionTime: "t" },
      { type: 1 },
      null,
    ],
    targetKey: { clusterId: 7 },
    lastDeployResult: {
      id: "1",
      commandInfo: { endTime: "2026-01-01T00:00:00Z" },
      errors: [{}],
      warnings: null,
      newObjects: 3,
    },
    lastValidateResult: { id: "2", endTime: "2026-01-01T00:00:00Z", errors: [{}, {}] },
    lastDriftDetectionResult: "?",
  };
  const parsed = parseDeployment({ metadata, spec: sound, status })?.status;
  expect(parsed).toMatchObject({
    observedCommit: "abc",
    conditions: [{ type: "Ready", status: "True" }],
    lastDeployResult: {
      id: "1",
      endTime: "2026-01-01T00:00:00Z",
      errors: 1,
      warnings: 0,
      newObjects: 3,
      orphanObjects: 0,
    },
    lastValidateResult: { id: "2", errors: 2, document: status.lastValidateResult },
  });
  expect(parsed).not.toHaveProperty("observedGeneration", expect.anything());
  expect(parsed?.targetKey).toBeUndefined();
  expect(parsed?.lastDriftDetectionResult).toBeUndefined();
});

test("parsing a resource never throws, and only a resource without a name gives nothing", () => {
  const wild = fc.record({
    metadata: fc.oneof(fc.constant(metadata), fc.anything()),
    spec: fc.oneof(
      fc.anything(),
      fc.record({ interval: fc.anything(), source: fc.anything(), args: fc.anything(), images: fc.anything() }),
    ),
    status: fc.anything(),
  });
  fc.assert(
    fc.property(wild, (resource) => {
      const parsed = parseDeployment(resource);
      expect(parsed !== undefined || resource.metadata !== metadata).toBe(true);
    }),
  );
  for (const nothing of [undefined, null, 7, "", [], {}, { metadata: null }, { metadata: { name: "" } }]) {
    expect(parseDeployment(nothing)).toBeUndefined();
  }
});

test("older forms of logins are read after the newer ones", () => {
  const { spec } = parseDeployment({
    metadata,
    spec: {
      interval: "1m",
      source: {
        url: "https://git.test/org/repo",
        secretRef: { name: "older" },
        credentials: [
          { host: "git.test", pathPrefix: "org/", secretRef: { name: "old" } },
          { secretRef: { name: "any" } },
        ],
      },
      credentials: { git: [{ host: "h", secretRef: { name: "new" } }] },
      helmCredentials: [{ secretRef: { name: "charts" } }],
    },
  }) as Deployment;
  expect(spec.gitCredentials).toMatchObject([
    { host: "h", secretName: "new" },
    { secretName: "older", bySource: true },
    { host: "git.test", path: "org/**", secretName: "old" },
    { path: "**", secretName: "any" },
  ]);
  expect(spec.helmCredentials).toEqual([{ secretName: "charts", bySecret: true }]);
});

test("a resource with an unchanged version is not parsed again, and an unchanged spec is reused", () => {
  const read = (resource: unknown, known?: ReturnType<typeof parseDeployment>) =>
    parseDeployment(resource, () => known);
  const before = read({ metadata, spec: sound });
  if (before === undefined || isMalformed(before)) throw new Error("it is sound");
  expect(read({ metadata, spec: sound }, before)).toBe(before);

  const status = { observedCommit: "0123abc" };
  const moved = { ...metadata, resourceVersion: "8", annotations: { seen: "yes" } };
  const later = read({ metadata: moved, spec: sound, status }, before);
  expect(later).toMatchObject({ resourceVersion: "8", annotations: { seen: "yes" }, status, repo: before.repo });
  expect(later).toHaveProperty("spec", before.spec);

  const other = { interval: "7m", source };
  const changed = { ...moved, generation: 3 };
  expect(read({ metadata: changed, spec: other }, before)).toMatchObject({ spec: { intervalMs: 420_000 } });
  expect(read({ metadata: { ...moved, uid: "2" }, spec: other }, before)).toMatchObject({
    spec: { intervalMs: 420_000 },
  });
  expect(read({ metadata: { ...moved, generation: 0 }, spec: other }, { ...before, generation: 0 })).toMatchObject({
    spec: { intervalMs: 420_000 },
  });

  const bad = read({ metadata, spec: { source } });
  const still = read({ metadata: moved, spec: { source }, status }, bad);
  expect(still).toMatchObject({ problem: expect.stringContaining("spec.interval"), status });
  expect(still).not.toHaveProperty("spec");
  expect(read({ metadata: changed, spec: sound }, bad)).toMatchObject({ spec: { intervalMs: 300_000 } });
});
