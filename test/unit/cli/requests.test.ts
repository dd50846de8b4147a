import { expect, test } from "vitest";
import { towline } from "../../support/command-line.ts";
import { type FakeResource, ready, useFakeApiServer } from "../../support/fake-api-server.ts";

test("reconcile requests it as kluctl does, waits for every result and exits with the worst", async () => {
  const api = await useFakeApiServer();
  for (const name of ["staging", "prod", "broken"]) api.add(name);
  const answered: string[] = [];
  api.onPatched = ({ metadata, status = {} }) => {
    const { requestValue } = requestOf(metadata) ?? {};
    answered.push(metadata.name);
    const error = metadata.name === "broken" ? { commandError: "deploy.yml:14: 'replicas' is undefined" } : {};
    status["reconcileRequestResult"] = {
      request: { requestValue },
      startTime: "",
      reconcileId: "r",
      endTime: "x",
      ...error,
    };
    status["lastDriftDetectionResult"] = { reconcileId: "r", endTime: "x" };
  };

  const one = await towline(["reconcile", "staging", "--kubeconfig", api.kubeconfig]);
  expect(one).toMatchObject({ code: 0, out: "shop/staging: ready. deploy succeeded.\n", err: "" });
  const all = await towline(["reconcile", "--all", "-n", "shop", "--kubeconfig", api.kubeconfig]);
  expect(all.code).toBe(1);
  expect(all.err).toBe("shop/broken: deploy.yml:14: 'replicas' is undefined\n");
  expect(all.out.split("\n").sort()).toEqual([
    "",
    "shop/prod: ready. deploy succeeded.",
    "shop/staging: ready. deploy succeeded.",
  ]);
  expect(answered.sort()).toEqual(["broken", "prod", "staging", "staging"]);

  const told = await towline(["reconcile", "staging", "broken", "-o", "json", "--kubeconfig", api.kubeconfig]);
  expect(told).toMatchObject({ code: 1, err: "" });
  expect(JSON.parse(told.out)).toEqual([
    { deployment: "shop/staging", ok: true, words: "ready. deploy succeeded." },
    { deployment: "shop/broken", ok: false, words: "deploy.yml:14: 'replicas' is undefined" },
  ]);
});

test("with --no-wait it only requests, and a missing answer is reported with what to check", async () => {
  const api = await useFakeApiServer();
  const { metadata } = api.add("staging", { labels: { team: "shop" } });
  api.add("other");
  const asked = await towline(["reconcile", "-l", "team=shop", "--no-wait", "--kubeconfig", api.kubeconfig]);
  expect(asked).toMatchObject({ code: 0, out: "shop/staging: requested\n" });
  expect(requestOf(metadata)?.requestValue).toMatch(/\S/);
  const late = await towline(["reconcile", "shop/staging", "--timeout", "0s", "--kubeconfig", api.kubeconfig]);
  expect(late.code).toBe(1);
  expect(late.err).toContain("shop/staging: timed out (waiting for the server). Check that the server runs");
});

test("suspend and resume set the spec and wait until the server has observed it", async () => {
  const api = await useFakeApiServer();
  const { spec, status } = api.add("prod");
  api.onPatched = ({ metadata }) => void (status!["observedGeneration"] = metadata.generation);
  const suspended = await towline(["suspend", "prod", "--kubeconfig", api.kubeconfig]);
  expect(suspended).toMatchObject({ code: 0, out: "shop/prod: suspended: nothing is deployed\n" });
  expect(spec["suspend"]).toBe(true);
  status!["conditions"] = [ready("False", "deploy failed with 1 errors.")];
  const resumed = await towline(["resume", "prod", "--kubeconfig", api.kubeconfig]);
  expect(resumed).toMatchObject({ code: 1, err: "shop/prod: deploy failed with 1 errors.\n" });
  expect(spec["suspend"]).toBeNull();
});

test("deployments of the legacy API get legacy annotations, and suspended ones are not requested to reconcile", async () => {
  const api = await useFakeApiServer();
  const apiVersion = "flux.kluctl.io/v1alpha1";
  const older = api.add("older", { apiVersion });
  const suspended = api.add("suspended", { apiVersion, spec: { suspend: true } });
  const twins = [api.add("both"), api.add("both", { apiVersion })];
  const asked: string[] = [];
  api.onPatched = (resource) => {
    const { metadata, status = {} } = resource;
    asked.push(`${metadata.name} ${resource.apiVersion}`);
    status["observedGeneration"] = metadata.generation;
    status["lastHandledReconcileAt"] = metadata.annotations?.["reconcile.fluxcd.io/requestedAt"];
    status["reconcileRequestResult"] = { request: requestOf(metadata), startTime: "", reconcileId: "r", endTime: "x" };
    status["lastDriftDetectionResult"] = { reconcileId: "r", endTime: "x" };
  };
  const call = (...args: string[]) => towline([...args, "--kubeconfig", api.kubeconfig]);

  const all = await call("reconcile", "--all");
  expect(all.out.split("\n").sort()).toEqual([
    "",
    "shop/both: ready. deploy succeeded.",
    "shop/older: ready. deploy succeeded.",
    "shop/suspended: skipped: suspended",
  ]);
  expect(all).toMatchObject({ code: 0, err: "" });
  expect(await call("reconcile", "suspended")).toMatchObject({
    code: 1,
    err: "shop/suspended: suspended: the legacy API cannot reconcile a suspended deployment, run `towline resume` first\n",
  });
  expect(asked.sort()).toEqual(["both gitops.kluctl.io/v1beta1", `older ${apiVersion}`]);
  expect(Date.parse(older.metadata.annotations?.["reconcile.fluxcd.io/requestedAt"] ?? "")).not.toBeNaN();
  expect(twins[1]?.metadata.annotations).toBeUndefined();

  expect(await call("suspend", "older")).toMatchObject({
    code: 0,
    out: "shop/older: suspended: nothing is deployed\n",
  });
  expect(older.spec["suspend"]).toBe(true);
  expect(await call("resume", "suspended")).toMatchObject({ code: 0, err: "" });
  expect(suspended.spec["suspend"]).toBeNull();
});

test("the command line must name the deployments in exactly one way", async () => {
  const api = await useFakeApiServer();
  api.add("prod");
  const call = (...args: string[]) => towline(["suspend", ...args, "--kubeconfig", api.kubeconfig]);
  expect(await call()).toMatchObject({ code: 2, err: expect.stringContaining("select deployments by name") as string });
  expect((await call("prod", "--all")).code).toBe(2);
  expect(await call("staging")).toMatchObject({
    code: 1,
    err: "towline: no KluctlDeployment staging; found: shop/prod\n",
  });
});

test("get deployments shows the same facts as a table and as JSON", async () => {
  const api = await useFakeApiServer();
  api.add("prod", { spec: { suspend: true } });
  api.add("staging", { labels: { team: "shop" }, status: { observedCommit: "3f2c1ab".padEnd(40, "0") } });
  const get = (...args: string[]) => towline(["get", "deployments", "--kubeconfig", api.kubeconfig, ...args]);
  expect((await get()).out.split("\n")).toEqual([
    "NAMESPACE  NAME     READY  COMMIT   DRIFT  DEPLOYED  WHY",
    "shop       prod     True   –        –      –         suspended",
    "shop       staging  True   3f2c1ab  –      –         –",
    "",
  ]);
  expect(JSON.parse((await get("-l", "team=shop", "-o", "json")).out)).toMatchObject([
    { namespace: "shop", name: "staging", ready: "True", source: "https://git.example.com/shop", ref: "branch main" },
  ]);
  expect((await get("shop/prod", "-o", "yaml")).out).toContain("why: suspended");
  const narrow = async (...args: string[]) =>
    (await towline(["get", "deployments", "--kubeconfig", api.kubeconfig, ...args], { columns: 60 })).out.split("\n");
  expect((await narrow())[1]).toMatch(/^.{53}suspen…$/);
  expect((await narrow("-o", "wide"))[1]).toMatch(/suspended$/);
  expect((await get("-n", "blog", "-o", "wide")).out).toBe("No KluctlDeployments in blog.\n");
});

test("get deployments lists what Flux applies on request, and says so", async () => {
  const api = await useFakeApiServer();
  api.add("apps");
  const commit = "3f2c1ab".padEnd(40, "0");
  const revision = `main@sha1:${commit}`;
  const sourceRef = { kind: "GitRepository", name: "infra" };
  const apiVersion = "kustomize.toolkit.fluxcd.io/v1";
  const git = { url: "https://git.example.com/infra", ref: { branch: "main" } };
  api.add("infra", { apiVersion: "source.toolkit.fluxcd.io/v1", spec: git });
  const waits = { ...ready("False", "dependency 'shop/crds' is not ready"), reason: "DependencyNotReady" };
  api.add("web", { apiVersion, spec: { sourceRef }, status: { conditions: [waits] }, labels: { team: "web" } });
  api.add("apps", {
    apiVersion,
    spec: { sourceRef, path: "./apps" },
    status: { lastAttemptedRevision: revision, lastAppliedRevision: revision },
  });
  api.add("off", { apiVersion, spec: { sourceRef: { kind: "Bucket", name: "b" }, suspend: true } });
  const upgraded = { ...ready("False", "Helm upgrade failed: timed out\nlogs"), reason: "UpgradeFailed" };
  api.add("web", { apiVersion: "helm.toolkit.fluxcd.io/v2", status: { conditions: [upgraded] } });
  const get = (argv: string[], env: Record<string, string> = {}) =>
    towline(["get", "deployments", "--kubeconfig", api.kubeconfig, ...argv], { env });
  const lines = async (...given: Parameters<typeof get>) => (await get(...given)).out.trimEnd().split("\n").slice(1);
  const mark = "(Kustomization, applied by Flux)";
  const own = expect.stringMatching(/^shop +apps +True/) as string;
  const expected = [
    own,
    expect.stringMatching(/^shop +apps \(Kustomization, applied by Flux\) +True +3f2c1ab +– +– +–$/) as string,
    expect.stringMatching(/^shop +off \(Kustomization, applied by Flux\) +True +– .* suspended$/) as string,
    expect.stringMatching(/^shop +web \(HelmRelease, .* Helm upgrade failed: timed out$/) as string,
    expect.stringMatching(/^shop +web \(Kus.*\) +False +– .* dependency 'shop\/crds' is not ready$/) as string,
  ];
  expect(await lines(["--flux"])).toEqual(expected);
  expect(await lines([], { TOWLINE_FLUX_STATUSES: "true" })).toEqual(expected);
  expect(await lines([])).toEqual([own]);
  expect(await lines(["apps", "--flux"])).toEqual([own]);
  const wide = (await get(["--flux", "-o", "wide"])).out;
  expect(wide).toMatch(/apps \(K.* https:\/\/git\.example\.com\/infra\/\/\.\/apps branch main +–\n/);
  expect(JSON.parse((await get(["--flux", "-l", "team=web", "-o", "json"])).out)).toMatchObject([
    { kind: "Kustomization", name: "web", appliedBy: "Flux", ready: "False" },
  ]);
  api.forbidden.add("gitrepositories");
  expect(await get(["--flux"])).toMatchObject({ code: 0, out: expect.stringContaining(mark) as string });
  api.forbidden.add("helmreleases");
  const denied = await get(["--flux"]);
  expect([denied.code, denied.out.includes(mark)]).toEqual([0, false]);
  expect(denied.err).toMatch(/^what Flux applies is not shown: .*may not list helmreleases/);
});

function requestOf({ annotations = {} }: FakeResource["metadata"]): { requestValue?: string } | undefined {
  const text = annotations["kluctl.io/request-reconcile"];
  return text === undefined ? undefined : (JSON.parse(text) as { requestValue: string });
}
