import { expect, test } from "vitest";
import type { Condition } from "../../../src/model.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import {
  findNewerCommit,
  findNewerCommits,
  mayHaveNewerCommit,
  type NewerCommitFacts,
} from "../../../src/views/newer-commit.ts";
import { withNewerCommit } from "../../../src/views/newer-text.ts";
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
  // Another server, or a sweep, may have asked git before it was reconciled.
  expect(find(reconciled, { job, heads: answer(newer, 80_000) })).toBeUndefined();
  expect(find(reconciled, { job, heads: answer(newer, 97_000) })?.commit).toBe(newer);
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

test("a push to more deployments than its record names may concern any of them but those that it ignored", () => {
  const job = { state: "waiting" } as const;
  const { repo } = at(old);
  const push = aPush({ matched: 60, deployments: ["shop/other"], repos: [repo] });
  expect(find(at(old), { job, deliveries: [push] })?.commit).toBe(newer);
  const ignored = [{ deployment: "shop/prod", reason: "suspended" }];
  expect(find(at(old), { job, deliveries: [{ ...push, ignored }] })).toBeUndefined();
  // Of the same name, and somebody else's; or stored by a version that did not say.
  for (const repos of [["other.example.com/org/shop"], undefined])
    expect(find(at(old), { job, deliveries: [{ ...push, repos }] })).toBeUndefined();
});

test("of many deployments, those are found of which each would be found alone", () => {
  const key = (name: string) => ({ namespace: "shop", name });
  const { repo } = at(old);
  const names = ["named", "cut", "idle", "suspended", "git"];
  const of = (name: string) => ({ ...at(old, { spec: { suspend: name === "suspended" } }), key: key(name) });
  const deliveries = [aPush({ deployments: ["shop/named", "shop/idle", "shop/suspended"], matched: 3 })];
  const cut = aPush({ at: 91_000, commit: newest, deployments: ["shop/others"], matched: 9, repos: [repo] });
  const jobs = new Map(["named", "cut", "git"].map((name) => [`shop/${name}`, { state: "waiting" } as const]));
  const found = (also: typeof deliveries, headsOf?: () => NewerCommitFacts["heads"]) =>
    findNewerCommits(names.map(of), {
      ...{ jobs, headsOf, retryAtOf: () => undefined, deliveries: [...deliveries, ...also], now },
    });
  expect([...found([])]).toEqual([["shop/named", { commit: newer, why: "queued" }]]);
  expect([...found([cut]).values()].map(({ commit }) => commit)).toEqual([newest, newest, newest]);
  expect([...found([], () => answer(newest, 95_000)).keys()]).toEqual(["shop/named", "shop/cut", "shop/git"]);
});

test("of a ready deployment without a job, and of a suspended one, the status says enough", () => {
  const job = { state: "waiting" } as const;
  expect(mayHaveNewerCommit(at(old), undefined)).toBe(false);
  expect(mayHaveNewerCommit(at(old), job)).toBe(true);
  expect(mayHaveNewerCommit(at(old, { spec: { suspend: true } }), job)).toBe(false);
  expect(mayHaveNewerCommit(at(old, { conditions: [ready("False")] }), undefined)).toBe(true);
});

test("a list says that a newer commit waits beside what else the deployment waits for, and says nothing twice", () => {
  const say = (why: string | undefined, what: string) =>
    withNewerCommit({ why, commit: old }, { commit: newer, why: what });
  expect(say(undefined, "queued")).toBe("newer commit bbbbbbb waits: queued");
  expect(say("deploy failed", "queued")).toBe("deploy failed; newer commit bbbbbbb waits: queued");
  expect(say("in progress: deploying", "in progress")).toBe("in progress: deploying (newer commit bbbbbbb)");
  expect(say("suspended: bbbbbbb is not deployed", "suspended")).toBe("suspended: bbbbbbb is not deployed");
  expect(withNewerCommit({ why: "waiting for approval of 12", commit: old }, { commit: old, why: "x" })).toBe(
    "waiting for approval of 12",
  );
  expect(withNewerCommit({ why: undefined, commit: old }, undefined)).toBeUndefined();
});

test("pushes are not searched for a ready deployment without a job, nor what a push to another repository ignored", () => {
  const { repo } = at(old);
  const unread = (field: keyof DeliveryRecord, fields: Partial<DeliveryRecord>) =>
    Object.defineProperty(aPush({ matched: 60, deployments: ["shop/other"], ...fields }), field, {
      get() {
        throw new Error(`${field} was read`);
      },
    });
  const job = { state: "waiting" } as const;
  expect(find(at(old), { deliveries: [unread("ref", { repos: [repo] })] })).toBeUndefined();
  expect(find(at(old), { job, deliveries: [unread("ignored", { repos: ["git.example.com/a/b"] })] })).toBeUndefined();
  expect(() => find(at(old), { job, deliveries: [unread("ignored", { repos: [repo] })] })).toThrow("was read");
});
