import { expect, test } from "vitest";
import { createKnownCommits, type KnownCommitsDeps } from "../../../src/app/known-commits.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";
import { fakeSecrets, silentLog } from "../../support/fakes.ts";

const [deployed, observed, pushed] = ["a", "b", "c"].map((digit) => digit.repeat(40)) as [string, string, string];
const lastDeployResult = aSummary({ document: { gitInfo: { commit: deployed } } });
const deployment = aDeployment({ status: { observedCommit: observed, lastDeployResult } });

function setUp(overrides: Partial<KnownCommitsDeps> = {}) {
  const asked: string[] = [];
  const find = createKnownCommits({
    secrets: fakeSecrets(),
    sources: {
      knownAuthorship(_repository, commit) {
        asked.push(commit);
        return Promise.resolve({ subject: `Change ${commit[0]}`, author: "Ada" });
      },
      knownHeads: () => Promise.resolve({ heads: { commits: new Map([["refs/heads/main", pushed]]) }, askedAt: 1 }),
    },
    deliveries: { latest: () => Promise.resolve([]) },
    queue: { find: () => Promise.resolve({ state: "waiting" }) },
    hostsOfRepo: () => ({ sending: ["gitea"], polled: [] }),
    retries: { nextAt: () => undefined },
    knownSecrets: () => ["canary-5f0e"],
    clock: { now: () => 2 },
    log: silentLog,
    ...overrides,
  });
  return { find, asked };
}

test("the commits that a deployment has, and the one that waits, are described, each read once", async () => {
  const { find, asked } = setUp();
  const known = {
    newer: { commit: pushed, why: "queued" },
    described: [observed, deployed, pushed].map((commit) => ({
      commit,
      subject: `Change ${commit[0]}`,
      author: "Ada",
    })),
  };
  expect(await find(deployment)).toEqual(known);
  expect(await find(deployment)).toEqual(known);
  expect(asked.sort()).toEqual([deployed, observed, pushed]);
});

test("a message is cut, its hidden characters are shown, and secrets in it are masked", async () => {
  const of = async (subject: string, author: string) => {
    const knownAuthorship = () => Promise.resolve({ subject, author });
    const { find } = setUp({ sources: { knownAuthorship, knownHeads: () => Promise.resolve(undefined) } });
    return (await find(deployment)).described[0];
  };
  expect(await of("Use \u202ecanary-5f0e", "")).toEqual({
    commit: observed,
    subject: "Use \\u202e*****",
    author: undefined,
  });
  const long = await of("word ".repeat(1_000), "name ".repeat(1_000));
  expect([long?.subject.length, long?.author?.length]).toEqual([201, 81]);
});

test("what does not answer in time, or fails, is left out", async () => {
  const never = () => new Promise<never>(() => undefined);
  const slow = setUp({ sources: { knownAuthorship: never, knownHeads: never }, queue: { find: never } });
  expect(await slow.find(deployment)).toEqual({ newer: undefined, described: [] });
  const fails = () => Promise.reject(new Error("down"));
  const down = setUp({ sources: { knownAuthorship: fails, knownHeads: fails }, deliveries: { latest: fails } });
  expect(await down.find(deployment)).toEqual({ newer: undefined, described: [] });
  const without = setUp({
    sources: { knownAuthorship: () => Promise.resolve(undefined), knownHeads: () => Promise.resolve(undefined) },
  });
  expect(await without.find(deployment)).toEqual({ newer: undefined, described: [] });
});

test("of an artifact, and of a deployment that cannot be parsed, git knows nothing", async () => {
  const { find, asked } = setUp();
  const { spec } = deployment;
  const source = { kind: "oci", url: "oci://registry/shop", ref: {}, path: "" } as const;
  const artifact = { ...deployment, repo: undefined, spec: { ...spec, source } };
  expect(await find(artifact)).toEqual({ newer: undefined, described: [] });
  expect(asked).toEqual([]);
});
