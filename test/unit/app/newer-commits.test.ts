import { expect, test } from "vitest";
import type { FoundJob } from "../../../jobs/queued-jobs.ts";
import { createNewerCommits, type NewerCommitsDeps } from "../../../src/app/newer-commits.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeSecrets, silentLog } from "../../support/fakes.ts";

const [old, pushed] = ["a".repeat(40), "b".repeat(40)];
const conditions = [{ type: "Ready", status: "True", reason: "", message: "", lastTransitionTime: "" }] as const;

function many(count: number, gitCredentials: readonly { host: string; secretName: string }[] = []) {
  return Array.from({ length: count }, (_, i) =>
    aDeployment({
      key: { namespace: `team-${i}`, name: "shop" },
      spec: { gitCredentials },
      status: { observedCommit: old, conditions: [...conditions] },
    }),
  );
}

function setUp(deployments: ReturnType<typeof many>, jobs: ReadonlyMap<string, FoundJob>, overrides = {}) {
  const asked = { jobs: [] as number[], deliveries: 0, secrets: 0, heads: 0 };
  const secrets = fakeSecrets();
  const find = createNewerCommits({
    deployments: { all: () => deployments },
    findJobs(keys) {
      asked.jobs.push(keys.length);
      return Promise.resolve(jobs);
    },
    secrets: {
      get(...name) {
        asked.secrets++;
        return secrets.get(...name);
      },
    },
    sources: {
      knownHeads() {
        asked.heads++;
        return Promise.resolve({ heads: { commits: new Map([["refs/heads/main", pushed]]) }, askedAt: 1 });
      },
    },
    deliveries: {
      latest() {
        asked.deliveries++;
        return Promise.resolve([]);
      },
    },
    forges: () => [{ id: "gitea" }],
    retries: { nextAt: () => undefined },
    clock: { now: () => 2 },
    log: silentLog,
    ...overrides,
  } satisfies NewerCommitsDeps);
  return { find, asked };
}

test("while nothing is queued, nothing else is read, whatever the number of deployments", async () => {
  const { find, asked } = setUp(many(300), new Map());
  expect([...(await find())]).toEqual([]);
  expect(asked).toEqual({ jobs: [300], deliveries: 0, secrets: 0, heads: 0 });
});

test("the queue is asked once for all deployments and readers, and git's answer is known once for all that share it", async () => {
  const deployments = many(300);
  const jobs = new Map(deployments.map(({ key }) => [`${key.namespace}/shop`, { state: "waiting" } as const]));
  const { find, asked } = setUp(deployments, jobs);
  const [found] = await Promise.all([find(), find()]);
  expect(found.size).toBe(300);
  expect(found.get("team-7/shop")).toEqual({ commit: pushed, why: "queued" });
  expect(asked).toEqual({ jobs: [300], deliveries: 1, secrets: 0, heads: 1 });
});

test("only some logins are read for one list; the last pushes are known of the others, too", async () => {
  const deployments = many(300, [{ host: "*", secretName: "git" }]);
  const jobs = new Map(deployments.map(({ key }) => [`${key.namespace}/shop`, { state: "waiting" } as const]));
  const push = {
    ...{ event: "push", at: 1, ref: "refs/heads/main", commit: pushed, repoName: "org/shop" },
    ...{ matched: 300, deployments: ["team-0/shop"], repos: [deployments[0]!.repo], ignored: [] },
  } as unknown as DeliveryRecord;
  const { find, asked } = setUp(deployments, jobs, { deliveries: { latest: () => Promise.resolve([push]) } });
  expect((await find()).size).toBe(300);
  expect(asked.secrets).toBe(20);
});
