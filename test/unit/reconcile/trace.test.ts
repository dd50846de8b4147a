import { expect, test } from "vitest";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import { annotation, type Condition, type DeploymentStatus, type StoredCommand } from "../../../src/model.ts";
import { traceCommit } from "../../../src/views/trace.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const [old, commit, newer] = ["a1b2c3d", "3f2c1ab", "9d41e07"].map((short) => short.padEnd(40, "0")) as [
  string,
  string,
  string,
];
const at = Date.parse("2026-01-02T12:00:00Z");
const now = at + 60_000;

function ready(status: Condition["status"], message = ""): Condition {
  return { type: "Ready", status, reason: "", message, lastTransitionTime: "" };
}

const delivery: DeliveryRecord = {
  ...{ v: 1, forge: "gitea", delivery: "d", at, status: 202, ms: 11, event: "push", repoName: "org/shop" },
  ...{ ref: "refs/heads/main", commit, matched: 1, deployments: ["shop/prod"], queued: 1, ignoredMore: 0 },
  ignored: [{ deployment: "shop/legacy", reason: "suspended" }],
};

function deployed(errors = 0): StoredCommand {
  const times = { startedAt: at + 2_000, endedAt: at + 3_000 };
  return { deployment: "shop/prod", command: "deploy", commit, ...times, errors, changes: "2 changed" };
}

interface Given {
  results?: StoredCommand[];
  deliveries?: DeliveryRecord[];
  namespaces?: string[];
  now?: number;
  annotations?: Record<string, string>;
}

function trace(status: Partial<DeploymentStatus>, more: Given = {}) {
  const deployment = aDeployment({
    annotations: more.annotations ?? {},
    generation: 1,
    status: { observedGeneration: 1, conditions: [ready("True")], ...status },
  });
  const { results = [], deliveries = [delivery], namespaces } = more;
  return traceCommit({
    commit: "3f2c1ab",
    deployments: [deployment],
    namespaces,
    results,
    deliveries,
    pullRequests: [],
    now: more.now ?? now,
  });
}

const ofOld = { endTime: "2026-01-02T11:00:00Z", document: { renderedObjectsHash: "h", gitInfo: { commit: old } } };
const driftNow = { document: {}, endTime: "2026-01-02T12:00:30Z" };

test("an applied commit shows each step with its time", () => {
  const found = trace({ observedCommit: commit }, { results: [deployed()] });
  expect(found.commit).toBe(commit);
  expect(found.deployments).toEqual([
    {
      deployment: "shop/prod",
      state: "applied",
      steps: [
        { step: "received", at, words: "by forge gitea, response 202" },
        { step: "queued", at: at + 11, words: "" },
        { step: "rendered", at: at + 2_000, words: "" },
        { step: "applied", at: at + 3_000, words: "2 changed" },
        { step: "healthy", at: undefined, words: "Ready; validation is disabled" },
      ],
    },
  ]);
  expect(found.ignored).toEqual([{ deployment: "shop/legacy", reason: "suspended" }]);
});

test("of deployments that ignored the push, only those of the selected namespaces are listed", () => {
  const ignoredIn = (...namespaces: string[]) => trace({}, { namespaces }).ignored;

  expect(ignoredIn()).toHaveLength(1);
  expect(ignoredIn("shop")).toHaveLength(1);
  expect(ignoredIn("shop-2")).toEqual([]);
});

test("an applied commit stays applied after a newer commit", () => {
  const [found] = trace({ observedCommit: newer }, { results: [deployed()] }).deployments;
  expect(found).toMatchObject({ state: "applied" });
  expect(found?.steps.at(-1)?.words).toBe("superseded by 9d41e07");
});

test("a commit can be unchanged, superseded or still waiting", () => {
  const status = { lastDeployResult: aSummary(ofOld), lastDriftDetectionResult: driftNow };
  const unchanged = trace({ ...status, observedCommit: commit, lastObjectsHash: "h" }).deployments[0];
  expect(unchanged?.state).toBe("unchanged");
  expect(unchanged?.steps.at(-2)).toEqual({
    step: "rendered",
    at: Date.parse(driftNow.endTime),
    words: "rendered objects unchanged since a1b2c3d",
  });
  const superseded = trace({ ...status, observedCommit: newer }).deployments[0];
  expect(superseded).toMatchObject({ state: "superseded" });
  expect(superseded?.steps.at(-1)?.words).toBe("superseded by 9d41e07");
  const before = { document: {}, endTime: "2026-01-02T11:59:00Z" };
  const waiting = trace({ ...status, lastDriftDetectionResult: before, observedCommit: old }).deployments[0];
  expect(waiting).toMatchObject({ state: "waiting" });
  expect(waiting?.steps.at(-1)?.words).toBe("still at a1b2c3d");
});

test("a commit may be superseded within the second in which it was received, because the status has no finer times", () => {
  const late = { ...delivery, at: at + 600 };
  const status = { lastDriftDetectionResult: { document: {}, endTime: "2026-01-02T12:00:00Z" }, observedCommit: newer };
  const stateAfter = (ms: number) => trace(status, { deliveries: [late], now: at + ms }).deployments[0]?.state;
  expect(stateAfter(1_000)).toBe("waiting"); // the check may have been before the delivery
  expect(stateAfter(10_000)).toBe("superseded");
});

test("a commit that cannot be rendered, or whose deploy fails, shows why", () => {
  const conditions = [ready("False", "prepare failed")];
  const broken = trace({ observedCommit: commit, conditions, lastPrepareError: "deploy.yml:14: 'x' is undefined" });
  expect(broken.deployments[0]).toMatchObject({ state: "failed" });
  expect(broken.deployments[0]?.steps.at(-1)).toEqual({ step: "failed", words: "deploy.yml:14: 'x' is undefined" });
  expect(broken.deployments[0]?.steps.map(({ step }) => step)).not.toContain("rendered");
  const failed = trace({ observedCommit: commit, conditions }, { results: [deployed(1)] });
  expect(failed.deployments[0]?.steps).toContainEqual({ step: "failed", at: at + 3_000, words: "1 error" });
});

test("a commit that cannot be rendered has no rendered step, although the status still describes the previous commit", () => {
  const status = { lastDeployResult: aSummary(ofOld), lastObjectsHash: "h", lastDriftDetectionResult: driftNow };
  const conditions = [ready("False", "prepare failed")];
  const [found] = trace({ ...status, observedCommit: commit, conditions, lastPrepareError: "broken" }).deployments;
  expect(found?.state).toBe("failed");
  expect(found?.steps.map(({ step }) => step)).toEqual(["received", "queued", "failed"]);
});

test("if nothing was ever rendered, a later push to the same branch shows that a commit was superseded", () => {
  const status = { observedCommit: newer, conditions: [ready("False", "broken")], lastPrepareError: "broken" };
  const stateWith = (ref: string) => {
    const later = { ...delivery, delivery: "later", at: at + 1_000, commit: newer, ref };
    return trace(status, { deliveries: [delivery, later] }).deployments[0];
  };
  expect(stateWith("refs/heads/main")).toMatchObject({ state: "superseded" });
  expect(stateWith("refs/heads/main")?.steps.at(-1)?.words).toBe("superseded by 9d41e07");
  expect(stateWith("refs/heads/other")).toMatchObject({ state: "waiting" });
});

test("an earlier commit of a push is traced through the last one", () => {
  const pushed = { ...delivery, commit: newer, others: [old, commit] };
  const elsewhere = { ...pushed, at: at - 1_000, ref: "refs/heads/try", commit: old, matched: 0, deployments: [] };
  const found = trace({ observedCommit: newer }, { deliveries: [elsewhere, pushed] });
  expect(found).toMatchObject({ commit, within: newer, deployments: [{ deployment: "shop/prod" }] });
  expect(found.deployments[0]?.steps[0]?.step).toBe("received");
  // It was merged by this push, after it was pushed alone to a branch that no deployment follows.
  const alone = { ...delivery, at: at - 2_000, ref: "refs/heads/try", matched: 0, deployments: [], ignored: [] };
  expect(trace({ observedCommit: newer }, { deliveries: [alone, pushed] })).toMatchObject({ within: newer });
  const direct = trace({ observedCommit: commit }, { deliveries: [delivery, pushed] });
  expect(direct.within).toBeUndefined();
});

test("without a delivery the status and the results show a commit, and an unknown commit has no deployments", () => {
  expect(trace({ observedCommit: commit }, { deliveries: [], results: [deployed()] }).deployments[0]?.state).toBe(
    "applied",
  );
  expect(trace({ observedCommit: newer }, { deliveries: [] })).toMatchObject({ commit: undefined, deployments: [] });
});

test("a dry run is not shown as applied", () => {
  const found = trace({ observedCommit: commit }, { results: [{ ...deployed(), dryRun: true }] });
  expect(found.deployments[0]).toMatchObject({ state: "unchanged" });
  expect(found.deployments[0]?.steps.map(({ step, words }) => [step, words])).toContainEqual([
    "note",
    "dry run: 2 changed would be applied",
  ]);
  expect(found.deployments[0]?.steps.map(({ step }) => step)).not.toContain("applied");
});

test("a failed deploy is not shown as unchanged, although the rendered objects are the same", () => {
  const conditions = [ready("False", "deploy failed with 1 errors.")];
  const ofThis = { document: { renderedObjectsHash: "h", gitInfo: { commit } }, errors: 1 };
  const status = { observedCommit: commit, conditions, lastObjectsHash: "h", lastDeployResult: aSummary(ofThis) };
  const stored = trace(status, { results: [deployed(1)] }).deployments[0];
  expect(stored?.state).toBe("failed");
  expect(stored?.steps.map(({ step }) => step)).toEqual(["received", "queued", "rendered", "failed", "failed"]);
  const forgotten = trace(status).deployments[0];
  expect(forgotten?.steps.map(({ step, words }) => `${step} ${words}`).join("\n")).not.toContain(
    "rendered objects unchanged",
  );
});

test("a commit names what was rendered with it, as far as that is recorded", () => {
  const annotations = { [annotation.includes]: "https://git.example.com/org/library refs/heads/main" };
  const found = trace({ observedCommit: commit }, { results: [deployed()], annotations });
  expect(found.deployments[0]?.steps.map(({ step, words }) => [step, words]).slice(2)).toEqual([
    ["rendered", ""],
    ["applied", "2 changed"],
    ["note", "also rendered from https://git.example.com/org/library branch main"],
    ["healthy", "Ready; validation is disabled"],
  ]);
  const many = Array.from({ length: 8 }, (_, n) => `https://git.example.com/org/library-${n} refs/heads/main`);
  const words = (status: Parameters<typeof trace>[0], facts: Parameters<typeof trace>[1]) =>
    trace(status, facts)
      .deployments[0]?.steps.map((one) => one.words)
      .join("\n");
  const long = { annotations: { [annotation.includes]: many.join("\n") } };
  const all = words({ observedCommit: commit }, { ...long, results: [deployed()] });
  expect(all).toMatch(/library-0 .*library-4 branch main; and 3 more$/m);
  expect(all).not.toContain("library-5");
  // What is recorded is of an earlier commit.
  const failed = { observedCommit: commit, lastPrepareError: "no such file" };
  expect(words(failed, { annotations })).not.toContain("also rendered");
});
