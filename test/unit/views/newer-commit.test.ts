import { expect, test } from "vitest";
import type { Condition } from "../../../src/model.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import { findNewerCommit, type NewerCommitFacts } from "../../../src/views/newer-commit.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const [old, newer, newest] = ["a", "b", "c"].map((digit) => digit.repeat(40)) as [string, string, string];
const now = 100_000;

function ready(status: Condition["status"], reason = "", message = ""): Condition {
  return { type: "Ready", status, reason, message, lastTransitionTime: "" };
}

function at(
  commit: string,
  { conditions = [ready("True")], ...fields }: Parameters<typeof aDeployment>[0] & { conditions?: Condition[] } = {},
) {
  return aDeployment({ ...fields, status: { observedCommit: commit, conditions, ...fields.status } });
}

function aPush(fields: Partial<DeliveryRecord> = {}): DeliveryRecord {
  return {
    ...{ v: 1, forge: "gitea", at: 90_000, status: 202, ms: 1, event: "push", repoName: "org/shop" },
    ...{ ref: "refs/heads/main", commit: newer, matched: 1, deployments: ["shop/prod"], queued: 1 },
    ...{ ignored: [], ignoredMore: 0, ...fields },
  } as DeliveryRecord;
}

const answer = (commit: string, askedAt = 80_000): NewerCommitFacts["heads"] => ({
  askedAt,
  heads: { commits: new Map([["refs/heads/main", commit]]) },
});
const find = (deployment: Parameters<typeof findNewerCommit>[0], facts: Partial<NewerCommitFacts> = {}) =>
  findNewerCommit(deployment, { deliveries: [], now, ...facts });

test("a pushed commit is queued, in progress, or tried again, as its job is", () => {
  const deliveries = [aPush()];
  const of = (job: NewerCommitFacts["job"]) => find(at(old), { deliveries, job });
  expect(of({ state: "waiting" })).toEqual({ commit: newer, why: "queued" });
  expect(of({ state: "active" })).toEqual({ commit: newer, why: "in progress" });
  expect(of({ state: "delayed", why: "no route to host\n  at a", nextAt: now + 5 })).toEqual({
    commit: newer,
    why: "no route to host",
    nextAt: now + 5,
  });
});

test("without a job, a failure is tried again later, and a dependency is waited for", () => {
  const deliveries = [aPush()];
  const failed = at(old, { conditions: [ready("False", "PrepareFailed")] });
  expect(find(failed, { deliveries, retryAt: now + 9 })).toMatchObject({ commit: newer, nextAt: now + 9 });
  const blocked = at(old, { conditions: [ready("Unknown", "DependencyNotReady", "waiting for shop/db: not ready")] });
  expect(find(blocked, { deliveries })).toEqual({ commit: newer, why: "waiting for shop/db: not ready" });
});

test("if nothing shows that the deployment will take a commit, it is not said to wait", () => {
  // Most pushes to a monorepo change nothing that a deployment reads.
  expect(find(at(old), { heads: answer(newer) })).toBeUndefined();
  expect(find(at(old), { deliveries: [aPush()] })).toBeUndefined();
});

test("the commit is that of the last push, unless git was asked since", () => {
  const job = { state: "waiting" } as const;
  const found = (facts: Partial<NewerCommitFacts>) => find(at(old), { job, ...facts })?.commit;
  expect(found({ heads: answer(newest) })).toBe(newest);
  expect(found({ heads: answer(newest, 80_000), deliveries: [aPush()] })).toBe(newer);
  expect(found({ heads: answer(newest, 95_000), deliveries: [aPush()] })).toBe(newest);
  expect(found({ heads: answer(old, 95_000), deliveries: [aPush()] })).toBeUndefined();
  const [before, deleted] = [aPush({ at: 80_000 }), aPush({ commit: undefined })];
  expect(found({ deliveries: [before, deleted] })).toBeUndefined();
});

test("pushes to anything else than what the deployment follows are not considered", () => {
  const job = { state: "waiting" } as const;
  const none = [
    aPush({ ref: "refs/heads/other" }),
    aPush({ repoName: "org/library" }),
    aPush({ deployments: ["shop/staging"] }),
    aPush({ including: ["shop/prod"] }),
    aPush({ event: "pull-request" }),
  ];
  for (const push of none) expect(find(at(old), { job, deliveries: [push] })).toBeUndefined();
});

test("a push that the deployment has gone beyond is no newer commit", () => {
  const job = { state: "waiting" } as const;
  // The webhook of the commit that it has was lost, or came later.
  const document = { startTime: new Date(95_000).toISOString() };
  const reconciled = at(old, { status: { lastDriftDetectionResult: { document } as never } });
  expect(find(reconciled, { job, deliveries: [aPush()] })).toBeUndefined();
  const pushes = [aPush({ at: 50_000 }), aPush({ at: 51_000, commit: old })];
  expect(find(at(old), { job, deliveries: pushes })).toBeUndefined();
});

test("a suspended deployment names the commit of its status, and one that waits for approval the one to approve", () => {
  const conditions = [ready("True", "", `deploy succeeded. Suspended: commit ${newer} is not deployed.`)];
  const suspended = at(old, { conditions, spec: { suspend: true } });
  expect(find(suspended)).toEqual({ commit: newer, why: "suspended" });
  expect(find(at(old, { spec: { suspend: true } }), { deliveries: [aPush()] })).toBeUndefined();

  const lastDeployResult = aSummary({ document: { gitInfo: { commit: old }, renderedObjectsHash: "one" } });
  const waiting = at(newer, { spec: { manual: true }, status: { lastDeployResult, lastObjectsHash: "two" } });
  expect(find(waiting)).toEqual({ commit: newer, why: "waiting for approval" });
  expect(find(at(newer, { status: { lastDeployResult, lastObjectsHash: "two" } }))).toBeUndefined();
});

test("a deployment that is pinned, malformed, deleted or from a registry follows no newer commit", () => {
  const facts = { job: { state: "waiting" }, heads: answer(newer) } as const;
  const url = "https://git.example.com/org/shop";
  expect(find(at(old, { spec: { source: { url, ref: { commit: old }, path: "" } } }), facts)).toBeUndefined();
  expect(find(at(old, { deletionTimestamp: "2026-01-01T00:00:00Z" }), facts)).toBeUndefined();
});
