import { expect, test } from "vitest";
import { createCompare } from "../../../src/doctor/compare.ts";
import { examineDeployments } from "../../../src/doctor/deployments.ts";
import type { SwapComparison } from "../../../src/doctor/swap.ts";
import { toRemoteCluster } from "../../../src/kube/remote-cluster.ts";
import { createReadIdentity } from "../../../src/access/identity.ts";
import { ApiError, SourceError } from "../../../src/errors.ts";
import { createLimit } from "../../../src/kit/limit.ts";
import type { Deployment, DeploymentStatus } from "../../../src/model.ts";
import type { Sources } from "../../../src/ports.ts";
import { aDeployment, aResult, aSummary } from "../../support/deployments.ts";
import { fakeDoctorCluster } from "../../support/fake-doctor-cluster.ts";
import { fakeKluctl, fakeSecrets, fakeServiceAccounts, fakeSources, silentLog } from "../../support/fakes.ts";

const deployed: Partial<DeploymentStatus> = {
  observedGeneration: 1,
  observedCommit: "c0ffee0000",
  lastObjectsHash: "aaaaaaaaaa",
  lastDeployResult: aSummary({ endTime: "2026-01-01T00:00:00Z" }),
};

interface Case {
  readonly deployment?: Deployment;
  readonly spec?: unknown;
  readonly compared?: Partial<SwapComparison> | Error;
  readonly secrets?: Record<string, Record<string, string>>;
  readonly missingAccounts?: readonly string[];
  /** `namespace/name` of the Secrets that may not be read. */
  readonly forbidden?: string;
}

async function examine({ deployment, spec = {}, compared = {}, secrets, missingAccounts, forbidden }: Case) {
  const readable = fakeSecrets(secrets);
  const deps = {
    cluster: fakeDoctorCluster({ ...(missingAccounts && { missingAccounts }) }),
    secrets: {
      get: (namespace: string, name: string) =>
        `${namespace}/${name}` === forbidden
          ? Promise.reject(new ApiError(403, `secrets "${name}" is forbidden`))
          : readable.get(namespace, name),
    },
    readIdentity: createReadIdentity({
      secrets: fakeSecrets(secrets),
      serviceAccounts: fakeServiceAccounts(),
      toRemoteCluster: (text) => toRemoteCluster(text, { allowUnsafe: false }),
    }),
    compare: () =>
      compared instanceof Error
        ? Promise.reject(compared)
        : Promise.resolve({ commit: "c0ffee0000", objectsHash: "aaaaaaaaaa", moved: false, ...compared }),
    limit: createLimit(2),
    now: () => Date.parse("2026-01-01T00:01:00Z"),
  };
  const found = { deployment: deployment ?? aDeployment({ status: deployed }), spec };
  const findings = await examineDeployments(deps, [found], () => undefined);
  return findings.map(({ level, subject, message }) => `${level} ${subject} ${message}`);
}

test("nothing would be deployed if the hash of the objects matches the status", async () => {
  expect(await examine({})).toEqual([
    "ok shop/prod nothing would be deployed: the hash of its objects matches the status (aaaaaaaa)",
  ]);
});

test("another hash for the same commit means a redeploy or a new approval", async () => {
  const compared = { objectsHash: "bbbbbbbbbb" };
  const [plain] = await examine({ compared });
  expect(plain).toMatch(/^warning shop\/prod would be deployed again: .* bbbbbbbb here and aaaaaaaa in the status/);

  const approved = aDeployment({ spec: { manual: true, manualObjectsHash: "aaaaaaaaaa" }, status: deployed });
  const [manual] = await examine({ compared, deployment: approved });
  expect(manual).toMatch(/^warning shop\/prod would need a new approval/);
  const waiting = aDeployment({ spec: { manual: true }, status: deployed });
  expect(await examine({ compared, deployment: waiting })).toEqual([
    expect.stringMatching(/would wait for an approval/),
  ]);
});

test("a commit that the remote has lost is reported, and not blamed on the migration", async () => {
  const [found] = await examine({ compared: { objectsHash: "bbbbbbbbbb", moved: true, commit: "deadbeef00" } });
  expect(found).toMatch(/would be deployed again: the remote no longer has commit c0ffee00, deadbeef was rendered/);
});

test.each([
  ["it was never deployed", { status: {} }],
  ["its spec changed", { status: { ...deployed, observedGeneration: 0 } }],
  ["its deployInterval has passed", { status: deployed, spec: { deployIntervalMs: 30_000 } }],
  [
    "its last deploy failed and its retryInterval has passed",
    { status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) }, spec: { retryIntervalMs: 1_000 } },
  ],
])("a deployment that would be deployed is reported with the reason: %s", async (why, parts) => {
  const [found] = await examine({ deployment: aDeployment(parts) });
  expect(found).toContain(`warning shop/prod would be deployed: ${why}`);
});

test("a failed deploy is reported as one that only Towline retries", async () => {
  const failed = aDeployment({
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1, endTime: "2026-01-01T00:00:30Z" }) },
  });
  expect(await examine({ deployment: failed })).toEqual([
    "warning shop/prod its last deploy failed: Towline retries, kluctl's controller waits for a change",
  ]);
});

test("a change that waits for approval keeps waiting", async () => {
  const deployment = aDeployment({
    spec: { manual: true, manualObjectsHash: "old" },
    status: { ...deployed, lastManualObjectsHash: "older" },
  });
  expect(await examine({ deployment })).toEqual(["ok shop/prod a change still waits for approval (aaaaaaaa)"]);
});

test("a project that cannot be rendered is a problem, with kluctl's error", async () => {
  expect(await examine({ compared: new Error("target prod not found") })).toEqual([
    "problem shop/prod would not become ready: target prod not found",
  ]);
  const known = aDeployment({ status: { ...deployed, lastPrepareError: "target prod not found" } });
  expect(await examine({ deployment: known, compared: new Error("target prod not found") })).toEqual([
    "warning shop/prod cannot be prepared, as its status already reports: target prod not found",
  ]);
});

test("Secrets that are missing or lack their keys are named with the field that refers to them", async () => {
  const spec = {
    credentials: {
      git: [
        { host: "*", secretRef: { name: "git" } },
        { host: "x", secretRef: { name: "empty" } },
      ],
      helm: [{ host: "*", secretRef: { name: "charts" } }],
    },
    decryption: { provider: "sops", secretRef: { name: "keys" } },
  };
  const secrets = {
    "shop/git": { username: "ada", password: "…" },
    "shop/empty": { username: "ada" },
    "shop/keys": { "prod.agekey": "…" },
  };
  const [refused] = await examine({ spec, secrets, forbidden: "shop/git" });
  expect(refused).toMatch(/^problem shop\/prod .*: secret shop\/git cannot be read: secrets "git" is forbidden$/);
  expect(await examine({ spec, secrets })).toEqual([
    "problem shop/prod spec.credentials.git[1]: secret shop/empty has none of the keys password, identity",
    "problem shop/prod spec.credentials.helm[0]: secret shop/charts does not exist",
  ]);
});

test("a kubeconfig that would run a program is refused, also for a suspended deployment", async () => {
  const kubeconfig = {
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: "https://other.example.com" } }],
    users: [{ name: "u", user: { exec: { command: "aws" } } }],
  };
  const deployment = aDeployment({ spec: { suspend: true, kubeConfig: { secretName: "remote" } }, status: deployed });
  const [found] = await examine({ deployment, secrets: { "shop/remote": { value: JSON.stringify(kubeconfig) } } });
  expect(found).toMatch(/^problem shop\/prod spec\.kubeConfig: .* its exec would run on the server/);
  expect(await examine({ deployment })).toEqual([expect.stringContaining('secrets "remote" not found')]);
});

test("a missing service account is a problem", async () => {
  const deployment = aDeployment({ spec: { serviceAccountName: "deployer" }, status: deployed });
  expect(await examine({ deployment, missingAccounts: ["shop/deployer"] })).toEqual([
    "problem shop/prod spec.serviceAccountName: service account shop/deployer does not exist",
  ]);
});

test("a suspended, malformed or deleted deployment is not compared", async () => {
  const fail = new Error("compared all the same");
  const suspended = aDeployment({ spec: { suspend: true }, status: deployed });
  expect(await examine({ deployment: suspended, compared: fail })).toEqual([
    "ok shop/prod suspended: nothing is deployed",
  ]);
  const malformed = { ...aDeployment(), problem: "spec.interval: is missing\nmissing source spec" };
  expect(await examine({ deployment: malformed, compared: fail })).toEqual([
    "problem shop/prod spec.interval: is missing",
    "problem shop/prod missing source spec",
  ]);
  const going = aDeployment({ deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(await examine({ deployment: going, compared: fail })).toEqual(["ok shop/prod is being deleted"]);
});

test("comparing renders the commit of the status, writes nothing, and reveals no login", async () => {
  const sources = fakeSources({ "refs/heads/main": "c2" });
  const kluctl = fakeKluctl({ diff: aResult({ objectsHash: "hash-2" }) });
  const secrets = fakeSecrets({ "shop/git": { username: "ada", password: "very-secret-password" } });
  const checkouts: unknown[] = [];
  const gone = new Set<unknown>();
  const checkout: Sources["checkout"] = (source, ...rest) => {
    checkouts.push(source.ref);
    if (source.kind !== "oci" && gone.has(source.ref.commit))
      return Promise.reject(new SourceError("ref-not-found", "gone"));
    return sources.checkout(source, ...rest);
  };
  const compare = createCompare({
    secrets,
    sources: { checkout },
    kluctl,
    clusterId: () => Promise.resolve("cluster-1"),
    clock: { now: () => 0 },
    newId: () => "id-1",
    log: silentLog,
    readIdentity: createReadIdentity({
      secrets,
      serviceAccounts: fakeServiceAccounts(),
      toRemoteCluster: (text) => toRemoteCluster(text, { allowUnsafe: false }),
      defaultServiceAccount: "deployer",
    }),
    signal: new AbortController().signal,
  });
  const gitCredentials = [{ host: "*", secretName: "git" }];
  const deployment = aDeployment({ spec: { gitCredentials }, status: { observedCommit: "c1" } });

  expect(await compare(deployment)).toMatchObject({ objectsHash: "hash-2", moved: false });
  expect(checkouts).toEqual([{ commit: "c1" }]);
  expect(kluctl.commands()).toEqual(["diff"]);
  expect(kluctl.runs[0]?.run).toMatchObject({ impersonate: "system:serviceaccount:shop:deployer" });

  gone.add("c1");
  expect(await compare(deployment)).toEqual({ commit: "c2", objectsHash: "hash-2", moved: true });
  kluctl.answers.diff = new Error("cannot clone https://ada:very-secret-password@git.example.com");
  await expect(compare(deployment)).rejects.toThrow(/^cannot clone (?!.*very-secret-password)/);
});

test("the deprecated login of a source is reported, and its Secret is checked", async () => {
  const gitCredentials = [{ secretName: "git", bySource: true }];
  const source = { kind: "git" as const, url: "https://git.test:8443/a/b", ref: {}, path: "" };
  const deployment = aDeployment({ spec: { gitCredentials, source }, status: deployed });
  const spec = { source: { secretRef: { name: "git" }, credentials: [{ secretRef: { name: "older" } }] } };

  expect(await examine({ deployment, spec, secrets: { "shop/git": { password: "p" } } })).toEqual([
    expect.stringMatching(
      /^warning shop\/prod spec.source.secretRef is deprecated; .* used for git.test only, not for includes/,
    ),
    "problem shop/prod spec.source.credentials[0]: secret shop/older does not exist",
  ]);
});
