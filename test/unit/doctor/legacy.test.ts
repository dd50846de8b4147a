import { expect, test } from "vitest";
import { examineLegacy, readLegacy } from "../../../src/doctor/legacy.ts";
import { ApiError } from "../../../src/errors.ts";
import type { KubeClient } from "../../../src/kube/client.ts";
import { toRemoteCluster } from "../../../src/kube/remote-cluster.ts";
import { createLimit } from "../../../src/kit/limit.ts";
import { createReadIdentity } from "../../../src/access/identity.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeDoctorCluster } from "../../support/fake-doctor-cluster.ts";
import { fakeSecrets, fakeServiceAccounts } from "../../support/fakes.ts";

const url = "https://git.example.com/org/shop";
const source = { url, ref: { branch: "main" } };
const deployed = { lastDeployResult: { time: "2026-01-01T00:00:00Z", objectsHash: "flux", error: "" } };

function older(name: string, spec: object, status: object = {}) {
  return {
    metadata: { name, namespace: "shop", uid: `uid-${name}` },
    spec: { interval: "5m", deployInterval: "never", target: "prod", ...spec },
    status,
  };
}

/** A cluster with one GitRepository of Flux, `main`. */
const client: Pick<KubeClient, "request"> = {
  request({ path }: { path: string }) {
    if (path.endsWith("/gitrepositories/main")) {
      const spec = { url, ref: { branch: "main" }, secretRef: { name: "flux-login" } };
      return Promise.resolve({ metadata: { name: "main", namespace: "shop", resourceVersion: "1" }, spec });
    }
    if (path.includes("/gitrepositories/")) throw new ApiError(404, "not found");
    return Promise.resolve({ resources: [{ name: "gitrepositories" }] });
  },
};

async function examine(items: readonly object[], secrets: Record<string, Record<string, string>> = {}) {
  const deps = {
    cluster: fakeDoctorCluster({ missingAccounts: ["shop/nobody"] }),
    secrets: fakeSecrets(secrets),
    readIdentity: createReadIdentity({
      secrets: fakeSecrets(secrets),
      serviceAccounts: fakeServiceAccounts(),
      toRemoteCluster: (text) => toRemoteCluster(text, { allowUnsafe: false }),
    }),
    compare: () => Promise.resolve({ commit: "c0ffee", objectsHash: "ours", moved: false }),
    limit: createLimit(2),
    now: () => Date.parse("2026-01-01T00:01:00Z"),
  };
  const found = await readLegacy({ client, secrets: deps.secrets }, items);
  const newer = { deployment: aDeployment({ key: { namespace: "shop", name: "moved" } }), spec: {} };
  const findings = await examineLegacy(deps, found, [newer]);
  return findings.map(({ level, subject, message }) => `${level} ${subject}: ${message}`);
}

test("without deployments of the legacy API nothing is reported", async () => {
  expect(await examine([])).toEqual([]);
});

test("a valid legacy deployment would be deployed once, because its hash is computed differently", async () => {
  expect(await examine([older("prod", { source }, deployed), older("moved", { source }), {}])).toEqual([
    "ok flux.kluctl.io: 2 deployments of the legacy API served; `towline migrate` converts them",
    "warning shop/prod (flux.kluctl.io): would be deployed: flux-kluctl-controller computes the hash in its status differently",
    "ok shop/moved (flux.kluctl.io): ignored: gitops.kluctl.io has a deployment of the same name",
  ]);
});

test.each([
  [{}, "spec.source: has no url; set spec.source.url, or spec.sourceRef"],
  [{ sourceRef: { kind: "GitRepository", name: "gone" } }, "spec.sourceRef: GitRepository shop/gone does not exist"],
  [{ source: { ...source, path: "../up" } }, 'spec.source.path: "../up" is not a directory inside the repository'],
  [{ source: { ...source, secretRef: { name: "login" } } }, "spec.source.secretRef: secret shop/login does not exist"],
  [
    { sourceRef: { kind: "GitRepository", name: "main" } },
    "spec.sourceRef: the GitRepository's credentials: secret shop/flux-login does not exist",
  ],
  [
    { source, helmCredentials: [{ secretRef: { name: "charts" } }] },
    "spec.helmCredentials.0: secret shop/charts does not",
  ],
  [
    { source, helmCredentials: [{ secretRef: { name: "empty" } }] },
    "spec.helmCredentials[0]: secret shop/empty has none of the keys password",
  ],
  [
    { source, decryption: { provider: "sops", secretRef: { name: "keys" } } },
    "spec.decryption: secret shop/keys does not",
  ],
  [{ source, serviceAccountName: "nobody" }, "spec.serviceAccountName: service account shop/nobody does not exist"],
])("a field that would not work is named (%#)", async (spec, message) => {
  const secrets = { "shop/empty": { url: "https://charts.example.com" } };
  const [, finding] = await examine([older("prod", spec)], secrets);

  expect(finding).toContain(`problem shop/prod (flux.kluctl.io): ${message}`);
});
