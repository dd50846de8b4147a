import { expect, test } from "vitest";
import type { Condition, DeploymentStatus, PostedDeployment } from "../../../../src/model.ts";
import type { Follower } from "../../../../src/reporting/deploy-statuses.ts";
import { nextSteps } from "../../../../src/reporting/environments/next-steps.ts";
import { aDeployment, aSummary } from "../../../support/deployments.ts";

const [a, b, c] = ["a", "b", "c"].map((letter) => letter.repeat(40)) as [string, string, string];

function condition(type: string, status: Condition["status"], message = ""): Condition {
  return { type, status, reason: "Any", message, lastTransitionTime: "2026-01-01T00:00:00Z" };
}

const ready = condition("Ready", "True", "deploy succeeded.");
const working = [condition("Ready", "Unknown"), condition("Reconciling", "True", "Performing deploy")];
const result = (commit: string, more = {}) => aSummary({ document: { gitInfo: { commit } }, ...more });

const deployed = (commit: string): Partial<DeploymentStatus> => ({
  observedCommit: commit,
  conditions: [ready],
  lastObjectsHash: "h",
  lastDeployResult: result(commit),
});
const deploying = (commit: string, before = a): Partial<DeploymentStatus> => ({
  observedCommit: commit,
  conditions: working,
  lastDeployResult: result(before),
});
const comparing = (commit: string, before = a): Partial<DeploymentStatus> => ({
  ...deploying(commit, before),
  lastObjectsHash: "h",
});
const failed = (commit: string, message = "deploy failed: no"): Partial<DeploymentStatus> => ({
  ...deployed(commit),
  conditions: [condition("Ready", "False", message)],
  lastDeployResult: result(commit, { errors: 1 }),
});
const unchanged = (commit: string, before = a) => ({ ...deployed(before), observedCommit: commit });

type Overrides = NonNullable<Parameters<typeof aDeployment>[0]>;

function follower(status: Partial<DeploymentStatus>, head: string | undefined, more: Overrides = {}): Follower {
  const { branch = "main" } = more.spec?.source?.ref ?? {};
  const deployment = aDeployment({ ...more, spec: { target: "prod", ...more.spec }, status });
  return { deployment, head, ref: `refs/heads/${branch}` };
}

const named = (name: string, more: Overrides = {}): Overrides => ({ key: { namespace: "shop", name }, ...more });

/** A host that accepts everything, with what was written to it. */
function host(task = "towline") {
  const posted = new Map<string, PostedDeployment>();
  const lines: string[] = [];
  let lastId = 0;
  return {
    posted,
    /** Follows the commit until nothing is left to write; returns the writes. */
    settle(commit: string, ...followers: Follower[]): string[] {
      const from = lines.length;
      for (let round = 0; round < 5; round++) {
        const steps = nextSteps({ commit, followers, posted: [...posted.values()], task });
        if (steps.length === 0) return lines.slice(from);
        for (const { commit: of, id = String(++lastId), deployment, toRecord } of steps) {
          const { environment, state, description } = deployment;
          lines.push(`${environment} ${of.slice(0, 1)}#${id} ${state}: ${description}`);
          posted.set(`${environment} ${deployment.ref}`, toRecord(id));
        }
      }
      throw new Error(`it never ends: ${lines.join("\n")}`);
    },
  };
}

test("a push that is deployed is shown from its start to its result, once each", () => {
  const { settle } = host();
  expect(settle(b, follower(deployed(a), b))).toEqual([]);
  expect(settle(b, follower(comparing(b), b))).toEqual([]);
  expect(settle(b, follower(deploying(b), b))).toEqual(["prod b#1 in_progress: being deployed"]);
  expect(settle(b, follower(deployed(b), b))).toEqual(["prod b#1 success: deployed: shop/prod"]);
  expect(settle(b, follower(deployed(b), b))).toEqual([]);
});

test("the deployment that was live is replaced once the next one has succeeded, and not before", () => {
  const { settle } = host();
  settle(a, follower(deployed(a), a));
  expect(settle(b, follower(deploying(b), b))).toEqual(["prod b#2 in_progress: being deployed"]);
  expect(settle(b, follower(failed(b), b))).toEqual(["prod b#2 failure: deploy failed: no"]);
  expect(settle(c, follower(deploying(c), c))).toEqual(["prod c#3 in_progress: being deployed"]);
  expect(settle(c, follower(deployed(c), c))).toEqual([
    "prod c#3 success: deployed: shop/prod",
    "prod a#1 replaced: replaced by ccccccc",
  ]);
});

test("a commit that changes nothing in an environment does not appear there", () => {
  const { settle } = host();
  settle(a, follower(deployed(a), a));
  expect(settle(b, follower(comparing(b), b))).toEqual([]);
  expect(settle(b, follower(unchanged(b), b))).toEqual([]);
  expect(settle(a, follower(unchanged(b), b))).toEqual([]);
});

test("a deploy that a newer commit superseded is canceled, by whichever of the two commits is looked at first", () => {
  for (const first of [b, c]) {
    const { settle } = host();
    settle(b, follower(deploying(b), b));
    const written = settle(first, follower(deploying(c), c));
    expect(written[0]).toBe("prod b#1 canceled: superseded by a newer commit");
    expect([...written, ...settle(c, follower(deploying(c), c))].slice(1)).toEqual([
      "prod c#2 in_progress: being deployed",
    ]);
  }
});

test("going back to an earlier commit is a new deployment of it", () => {
  const { settle } = host();
  settle(a, follower(deployed(a), a));
  settle(b, follower(deployed(b), b));
  expect(settle(a, follower(deployed(a), a))).toEqual([
    "prod a#3 success: deployed: shop/prod",
    "prod b#2 replaced: replaced by aaaaaaa",
  ]);
});

test("a retry or a correction of drift does not take a result back until there is another one", () => {
  const { settle } = host();
  settle(b, follower(failed(b), b));
  expect(settle(b, follower(deploying(b, b), b))).toEqual([]);
  expect(settle(b, follower(failed(b, "deploy failed: in 2s"), b))).toEqual([]);
  expect(settle(b, follower(deployed(b), b))).toEqual(["prod b#1 success: deployed: shop/prod"]);
  expect(settle(b, follower(deploying(b, b), b))).toEqual([]);
  expect(settle(b, follower(failed(b), b))).toEqual(["prod b#1 failure: deploy failed: no"]);
});

test("the deployments of an environment share one, which ends with the last of them", () => {
  const { settle } = host();
  const both = (one: Partial<DeploymentStatus>, other: Partial<DeploymentStatus>) =>
    settle(b, follower(one, b, named("api")), follower(other, b, named("web")));
  expect(both(deployed(a), deployed(a))).toEqual([]);
  expect(both(deploying(b), deployed(a))).toEqual(["prod b#1 in_progress: being deployed"]);
  expect(both(deployed(b), deployed(a))).toEqual([]);
  expect(both(deployed(b), comparing(b))).toEqual([]);
  expect(both(deployed(b), failed(b))).toEqual([
    "prod b#1 failure: 1 of 2 deployments failed: shop/web: deploy failed: no",
  ]);
  expect(both(deployed(b), deployed(b))).toEqual(["prod b#1 success: deployed: 2 deployments"]);
});

test("a member of the environment that the commit does not change does not count", () => {
  const { settle } = host();
  expect(settle(b, follower(deployed(b), b, named("api")), follower(unchanged(b), b, named("web")))).toEqual([
    "prod b#1 success: deployed: shop/api",
  ]);
});

test("while some deployments have yet to leave a commit, it does not take the environment back", () => {
  const { settle } = host();
  settle(b, follower(deployed(b), b, named("api")), follower(deployed(a), b, named("web")));
  expect(settle(a, follower(deployed(b), b, named("api")), follower(failed(a), b, named("web")))).toEqual([]);
});

test("without an answer of the remote, a commit is current if all deployments are at it", () => {
  const some = [follower(deployed(b), undefined, named("api")), follower(deployed(a), undefined, named("web"))];
  expect(host().settle(b, ...some)).toEqual([]);
  expect(host().settle(b, follower(deployed(b), undefined))).toHaveLength(1);
});

test("a change that waits for approval is queued, and ends if it is withdrawn", () => {
  const { settle } = host();
  const waits = { ...unchanged(b), lastObjectsHash: "new" };
  const manual = { spec: { manual: true } };
  expect(settle(b, follower(waits, b, manual))).toEqual(["prod b#1 queued: waiting for approval"]);
  expect(settle(b, follower(unchanged(b), b))).toEqual(["prod b#1 canceled: nothing is deployed"]);
});

test.each([
  [
    "a project that cannot be rendered",
    { ...unchanged(b), lastPrepareError: "no such file" },
    "cannot be rendered: no such file",
  ],
  [
    "a first deploy that ended without a result",
    { observedCommit: b, conditions: [condition("Ready", "False", "killed")] },
    "killed",
  ],
  [
    "a deploy that was interrupted",
    { ...deploying(b), conditions: [condition("Ready", "False", "interrupted")] },
    "interrupted",
  ],
])("%s is a failure", (_, status, description) => {
  expect(host().settle(b, follower(status, b))).toEqual([`prod b#1 failure: ${description}`]);
});

test("a failure that has nothing to do with the commit does not show it in the environment", () => {
  const invalid = { ...unchanged(b), conditions: [condition("Ready", "False", "validate failed")] };
  expect(host().settle(b, follower(invalid, b))).toEqual([]);
});

test.each([
  ["a dry run", { spec: { dryRun: true } }],
  ["a deployment that does not want to be reported", { annotations: { "towline.dev/environment": "none" } }],
])("%s appears in no environment", (_, more) => {
  expect(host().settle(b, follower(deployed(b), b, more))).toEqual([]);
});

test("what was deployed but is not healthy yet is in progress, and stays a success if it waits again later", () => {
  const { settle } = host();
  const pending = { ...condition("Ready", "Unknown"), reason: "HealthCheckPending" };
  const waiting = { ...deployed(b), conditions: [pending] };
  expect(settle(b, follower(waiting, b))).toEqual(["prod b#1 in_progress: deployed, waiting for health checks"]);
  expect(settle(b, follower(deployed(b), b))).toEqual(["prod b#1 success: deployed: shop/prod"]);
  expect(settle(b, follower(waiting, b))).toEqual([]);
});

test("a suspended deployment is not waited for", () => {
  const { settle } = host();
  const paused = follower(deployed(a), b, named("web", { spec: { suspend: true } }));
  expect(settle(b, follower(deployed(b), b, named("api")), paused)).toEqual(["prod b#1 success: deployed: shop/api"]);
});

test("a new link or tier is written to the deployment that is there", () => {
  const { settle, posted } = host();
  settle(b, follower(deployed(b), b));
  const annotations = {
    "towline.dev/environment-url": "https://shop.example.com/",
    "towline.dev/environment-tier": "production",
  };
  expect(settle(b, follower(deployed(b), b, { annotations }))).toEqual(["prod b#1 success: deployed: shop/prod"]);
  expect([...posted.values()]).toMatchObject([{ url: "https://shop.example.com/", tier: "production" }]);
  expect(settle(b, follower(deployed(b), b, { annotations }))).toEqual([]);
});

test("without a link, the environment's is where the first of its deployments is served", () => {
  const { settle, posted } = host();
  const served = (name: string) => ({ annotations: { "towline.dev/served-url": `https://${name}.example.com/` } });
  const linked = { annotations: { "towline.dev/environment-url": "https://example.com/" } };
  const all = (web: object) => [
    follower(deployed(b), b, { ...named("api"), ...served("api") }),
    follower(deployed(b), b, { ...named("web"), ...web }),
  ];
  settle(b, ...all(served("web")));
  expect([...posted.values()]).toMatchObject([{ url: "https://api.example.com/" }]);
  settle(b, ...all(linked));
  expect([...posted.values()]).toMatchObject([{ url: "https://example.com/" }]);
});

test("deployments of different branches in one environment do not replace each other", () => {
  const { settle } = host();
  const source = { url: "https://git.example.com/org/shop", ref: { branch: "release" }, path: "" };
  const both = [follower(deployed(b), b), follower(deployed(c), c, named("other", { spec: { source } }))];
  for (const commit of [b, c, b, c]) settle(commit, ...both);
  expect(settle(b, ...both)).toEqual([]);
});

test("an environment that no deployment belongs to any more has nothing live", () => {
  const { settle } = host();
  settle(b, follower(deployed(b), b));
  const renamed = follower(unchanged(c, b), c, { annotations: { "towline.dev/environment": "live" } });
  const left = "no deployment belongs to this environment any more";
  expect(settle(c, renamed)).toEqual([`prod b#1 replaced: ${left}`]);
  expect(settle(c, renamed)).toEqual([]);
  expect(settle(b, follower(deployed(b), b))).toEqual(["prod b#2 success: deployed: shop/prod"]);
});

test("a deploy in progress, and what it was to replace, both end with their environment", () => {
  const { settle } = host();
  settle(a, follower(deployed(a), a));
  settle(b, follower(deploying(b), b));
  const left = "no deployment belongs to this environment any more";
  expect(settle(b)).toEqual([`prod a#1 replaced: ${left}`, `prod b#2 canceled: ${left}`]);
  expect(settle(b)).toEqual([]);
});

test("while the name of a default branch is unknown, no environment is taken for abandoned", () => {
  const { settle } = host();
  settle(b, follower(deployed(b), b));
  expect(settle(b, { ...follower(deployed(b), undefined), ref: undefined })).toEqual([]);
});

test("what another server wrote is not touched", () => {
  const eu = host("towline-eu");
  eu.settle(b, follower(deployed(b), b));
  const posted = [...eu.posted.values()];
  expect(nextSteps({ commit: b, followers: [], posted, task: "towline" })).toEqual([]);
});

test("a repository with many environments gets a single one", () => {
  const followers = (count: number) =>
    Array.from({ length: count }, (_, i) => follower(deployed(b), b, named(`n${i}`, { spec: { target: `t${i}` } })));
  expect(host().settle(b, ...followers(10))).toHaveLength(10);
  expect(host().settle(b, ...followers(200))).toEqual(["towline b#1 success: deployed: 200 deployments"]);
});
