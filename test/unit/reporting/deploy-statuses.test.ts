import { expect, test } from "vitest";
import { annotation, type Condition, type DeploymentSpec, type DeploymentStatus } from "../../../src/model.ts";
import { deployStatuses } from "../../../src/reporting/deploy-statuses.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const pushed = "c1".repeat(20);
const older = "c0".repeat(20);

function condition(type: string, status: Condition["status"], message = "deploy succeeded."): Condition {
  return { type, status, reason: "any", message, lastTransitionTime: "2026-01-01T00:00:00Z" };
}

function aDeploy(commit: string, overrides: Parameters<typeof aSummary>[0] = {}) {
  return aSummary({ document: { gitInfo: { commit }, renderedObjectsHash: "hash-1" }, ...overrides });
}

const ready = { observedCommit: pushed, conditions: [condition("Ready", "True")], lastObjectsHash: "hash-1" };

function lineFor(
  status: Partial<DeploymentStatus>,
  spec: Partial<DeploymentSpec> = {},
  head: string | undefined = pushed,
) {
  const [line] = deployStatuses(pushed, [{ deployment: aDeployment({ status, spec }), head }], []);
  return line && [line.state, line.description];
}

test.each<[string, Partial<DeploymentStatus>, Partial<DeploymentSpec>, [string, string]]>([
  ["has not been looked at", { observedCommit: older }, {}, ["pending", "queued"]],
  ["will not be", { observedCommit: older }, { suspend: true }, ["success", "suspended: nothing is deployed"]],
  [
    "is being deployed",
    { ...ready, conditions: [condition("Ready", "Unknown"), condition("Reconciling", "True")] },
    {},
    ["pending", "being deployed"],
  ],
  [
    "was deployed",
    { ...ready, lastDeployResult: aDeploy(pushed, { changedObjects: 5, newObjects: 1 }) },
    {},
    ["success", "deployed: 5 changed, 1 new"],
  ],
  [
    "changed no object",
    { ...ready, lastDeployResult: aDeploy(pushed) },
    {},
    ["success", "deployed: no objects changed"],
  ],
  [
    "was deployed, and its prune waits",
    { ...ready, lastDeployResult: aDeploy(pushed, { changedObjects: 1, orphanObjects: 14 }) },
    { prune: true },
    ["success", "deployed: 1 changed; 14 orphan, not pruned"],
  ],
  [
    "left orphans, as nothing prunes them",
    { ...ready, lastDeployResult: aDeploy(pushed, { orphanObjects: 14 }) },
    { prune: false },
    ["success", "deployed: no objects changed"],
  ],
  ["gave nothing to deploy", { ...ready, lastDeployResult: aDeploy(older) }, {}, ["success", "nothing to do"]],
  [
    "cannot be rendered",
    { ...ready, conditions: [condition("Ready", "False")], lastPrepareError: "deploy.yml:3: 'x' is undefined\nmore" },
    {},
    ["failure", "cannot be rendered: deploy.yml:3: 'x' is undefined"],
  ],
  [
    "failed",
    {
      ...ready,
      conditions: [condition("Ready", "False", "deploy failed with 2 errors.")],
      lastDeployResult: aDeploy(pushed, { errors: 2 }),
    },
    {},
    ["failure", "deploy failed with 2 errors."],
  ],
  [
    "failed, and says where",
    {
      ...ready,
      conditions: [condition("Ready", "False", "deploy failed with 2 errors and 1 warnings. First error: some words")],
      lastDeployResult: aSummary({
        errors: 2,
        document: {
          gitInfo: { commit: pushed },
          errors: [
            { ref: { kind: "Secret", name: "login", namespace: "shop" }, message: "data.key: illegal base64\nmore" },
            { ref: { kind: "ConfigMap", name: "b" }, message: "no" },
          ],
        },
      }),
    },
    {},
    ["failure", "deploy failed: Secret shop/login: data.key: illegal base64"],
  ],
  [
    "cannot be rendered for several reasons",
    {
      ...ready,
      conditions: [condition("Ready", "False")],
      lastPrepareError: "2 errors occurred:\n\t* no a\n\t* no b\n",
    },
    {},
    ["failure", "cannot be rendered: no a (and 1 more)"],
  ],
  [
    "waits for a person",
    { ...ready, lastObjectsHash: "hash-2", lastDeployResult: aDeploy(older) },
    { manual: true, manualObjectsHash: "hash-1" },
    ["pending", "waiting for approval"],
  ],
  [
    "was approved and deployed",
    { ...ready, lastDeployResult: aDeploy(pushed, { changedObjects: 1 }) },
    { manual: true, manualObjectsHash: "hash-1" },
    ["success", "deployed: 1 changed"],
  ],
])("a pushed commit that %s shows it in its status", (_, status, spec, expected) => {
  expect(lineFor(status, spec)).toEqual(expected);
});

test("a dry run is shown as one", () => {
  const document = { gitInfo: { commit: pushed }, commandInfo: { dryRun: true } };
  expect(lineFor({ ...ready, lastDeployResult: aSummary({ document, changedObjects: 1 }) })).toEqual([
    "success",
    "dry run: 1 changed",
  ]);
});

test("the result of a commit's first deploy stays, whatever its later deploys change or are about to do", () => {
  const orphans = aDeploy(pushed, { newObjects: 3, orphanObjects: 2 });
  const follow = (status: Partial<DeploymentStatus>) => [
    { deployment: aDeployment({ status: { ...ready, ...status }, spec: { prune: true } }), head: pushed },
  ];
  const first = deployStatuses(pushed, follow({ lastDeployResult: orphans }), []);
  expect(first[0]).toMatchObject({ state: "success", description: "deployed: 3 new; 2 orphan, not pruned" });
  const then = (status: Partial<DeploymentStatus>) => {
    const [line, sum] = deployStatuses(pushed, follow(status), first);
    expect(sum).toMatchObject({ state: line?.state, description: line?.description });
    return `${line?.state}: ${line?.description}`;
  };

  expect(then({ lastDeployResult: aDeploy(pushed) })).toBe("success: deployed: 3 new");
  expect(then({ lastDeployResult: aDeploy(pushed, { changedObjects: 1, orphanObjects: 1 }) })).toBe(
    "success: deployed: 3 new; 1 orphan, not pruned",
  );
  expect(then({ conditions: [condition("Reconciling", "True")] })).toBe(
    "success: deployed: 3 new; 2 orphan, not pruned",
  );
  expect(then({ conditions: [condition("Ready", "False", "deploy failed.")] })).toBe("failure: deploy failed.");
});

test("a commit that no deployment follows or has observed gets no status", () => {
  expect(lineFor({ observedCommit: older }, {}, older)).toBeUndefined();
});

test("a pending status ends when a newer commit supersedes the commit", () => {
  const follower = { deployment: aDeployment({ status: { observedCommit: older } }), head: "c2".repeat(20) };
  const written = [{ context: "towline/shop/prod", state: "pending" as const, description: "queued" }];

  expect(deployStatuses(pushed, [follower], written)).toEqual([
    { context: "towline/shop/prod", state: "canceled", description: "superseded by a newer commit" },
    { context: "towline", state: "canceled", description: "superseded by a newer commit" },
  ]);
});

test("a pending summary without other statuses ends as well when a newer commit supersedes the commit", () => {
  const written = [{ context: "towline", state: "pending" as const, description: "200 deployments: 200 pending" }];
  expect(deployStatuses(pushed, [], written)).toEqual([
    { context: "towline", state: "canceled", description: "superseded by a newer commit" },
  ]);
});

test.each<[string, Partial<DeploymentStatus>]>([
  ["has an older commit", { observedCommit: older }],
  ["has another commit", { observedCommit: "c2".repeat(20) }],
])("while git cannot be read, a commit keeps its status in a deployment that %s", (_, status) => {
  const follower = { deployment: aDeployment({ status }), head: undefined };
  const queued = { state: "pending" as const, description: "queued" };
  const written = ["towline/shop/prod", "towline"].map((context) => ({ context, ...queued }));
  expect(deployStatuses(pushed, [follower], written)).toEqual(written);
  const summary = [{ context: "towline", state: "pending" as const, description: "200 deployments: in progress" }];
  expect(deployStatuses(pushed, [follower], summary)).toEqual(summary);
});

test.each(["nothing to do", "dry run: 1 changed"])(
  "a result stays while its commit is reconciled again, perhaps to take up the next one: %s",
  (description) => {
    const conditions = [condition("Ready", "True"), condition("Reconciling", "True")];
    const deployment = aDeployment({ status: { ...ready, conditions } });
    const written = [{ context: "towline/shop/prod", state: "success" as const, description }];
    const then = deployStatuses(pushed, [{ deployment, head: "c2".repeat(20) }], written);
    expect(then[0]).toMatchObject({ state: "success", description });
    const left = aDeployment({ status: { ...ready, observedCommit: "c2".repeat(20) } });
    const last = deployStatuses(pushed, [{ deployment: left, head: "c2".repeat(20) }], then);
    expect(last[0]).toMatchObject({ state: "success", description });
  },
);

test("a deployment that was suspended shows that it deploys after it was resumed", () => {
  const conditions = [condition("Ready", "Unknown"), condition("Reconciling", "True")];
  const deployment = aDeployment({ status: { ...ready, conditions } });
  const written = [
    { context: "towline/shop/prod", state: "success", description: "suspended", neutral: true } as const,
  ];
  expect(deployStatuses(pushed, [{ deployment, head: pushed }], written)[0]).toMatchObject({ state: "pending" });
});

test("the pending status of a deployment that was deleted, or follows something else now, ends", () => {
  const queued = { state: "pending" as const, description: "queued" };
  const left = { state: "canceled", description: "no longer deployed from this repository" };
  const written = ["towline/shop/gone", "towline"].map((context) => ({ context, ...queued }));
  expect(deployStatuses(pushed, [], written)).toEqual([
    { context: "towline/shop/gone", ...left },
    { context: "towline", ...left },
  ]);

  const done = { deployment: aDeployment({ status: { ...ready, lastDeployResult: aDeploy(pushed) } }), head: pushed };
  const finished = { context: "towline/shop/past", state: "success" as const, description: "deployed: 1 new" };
  const ofFlux = { context: "towline/kustomization/shop/apps", ...queued };
  expect(deployStatuses(pushed, [done], [...written, finished, ofFlux])).toEqual([
    { context: "towline/shop/prod", state: "success", description: "deployed: no objects changed" },
    { context: "towline/shop/gone", ...left },
    { context: "towline", state: "success", description: "deployed: no objects changed" },
  ]);
});

test("the summary waits for all deployments, and fails with one", () => {
  const named = (name: string, status: Partial<DeploymentStatus>) => ({
    deployment: aDeployment({ key: { namespace: "shop", name }, status }),
    head: pushed,
  });
  const done = named("a", { ...ready, lastDeployResult: aDeploy(pushed) });
  const queued = named("b", { observedCommit: older });
  const failed = named("c", { ...ready, lastPrepareError: "no such target" });
  const sum = (...followers: (typeof done)[]) => deployStatuses(pushed, followers, []).at(-1);

  expect(sum(done, queued)).toEqual({
    context: "towline",
    state: "pending",
    description: "2 deployments: 1 pending, 1 up to date",
  });
  expect(sum(done, queued, failed)).toMatchObject({ state: "failure" });
  expect(sum(done, done)).toMatchObject({ state: "success", description: "2 deployments: 2 up to date" });
});

test("for many deployments only the failures and the summary are written", () => {
  const followers = Array.from({ length: 200 }, (_, i) => ({
    deployment: aDeployment({
      key: { namespace: "shop", name: `d${i}` },
      status: i === 150 ? { ...ready, lastPrepareError: "no such target" } : { ...ready },
    }),
    head: pushed,
  }));

  expect(deployStatuses(pushed, followers, []).map(({ context }) => context)).toEqual(["towline/shop/d150", "towline"]);
});

function many(count: number, statusOf: (i: number) => Partial<DeploymentStatus>) {
  return Array.from({ length: count }, (_, i) => {
    const key = { namespace: "shop", name: `d${i}` };
    return { deployment: aDeployment({ key, status: statusOf(i) }), head: pushed };
  });
}

test("while many deployments change, the summary is written a few times, and not for each of them", () => {
  const done = { ...ready, lastDeployResult: aDeploy(pushed) };
  const failed = { ...ready, lastPrepareError: "no such target" };
  const sums = Array.from({ length: 21 }, (_, finished) => {
    const followers = many(20, (i) => (i >= finished ? { observedCommit: older } : i === 10 ? failed : done));
    return deployStatuses(pushed, followers, []).at(-1)?.description;
  });
  expect([...new Set(sums)]).toEqual([
    "20 deployments: in progress",
    "20 deployments: 1 failed, the rest in progress",
    "20 deployments: 1 failed, 2 pending, 17 up to date",
    "20 deployments: 1 failed, 1 pending, 18 up to date",
    "20 deployments: 1 failed, 19 up to date",
  ]);
});

test("among many deployments, one whose failure was written gets a success status when it recovers", () => {
  const followers = many(20, () => ({ ...ready, lastDeployResult: aDeploy(pushed) }));
  const written = [{ context: "towline/shop/d7", state: "failure" as const, description: "deploy failed." }];
  expect(deployStatuses(pushed, followers, written)).toMatchObject([
    { context: "towline/shop/d7", state: "success" },
    { context: "towline", state: "success", description: "20 deployments: 20 up to date" },
  ]);
});

test("what has health checks is pending until it is healthy, and its status says that it is", () => {
  const annotations = { [annotation.healthChecks]: "[]" };
  const lastDeployResult = aDeploy(pushed, { changedObjects: 1 });
  const line = (ready: Condition) => {
    const status = { observedCommit: pushed, conditions: [ready], lastObjectsHash: "hash-1", lastDeployResult };
    const [one] = deployStatuses(pushed, [{ deployment: aDeployment({ annotations, status }), head: pushed }], []);
    return [one?.state, one?.description];
  };
  const pending = { ...condition("Ready", "Unknown"), reason: "HealthCheckPending" };
  expect(line(pending)).toEqual(["pending", "deployed, waiting for health checks"]);
  expect(line(condition("Ready", "True"))).toEqual(["success", "deployed: 1 changed, healthy"]);
  const message = "deploy succeeded. Health check failed: ConfigMap shop/flag (`failed` is true).";
  expect(line(condition("Ready", "False", message))).toEqual(["failure", message]);
});
