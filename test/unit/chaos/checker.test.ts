/** Each invariant is violated on purpose and must be the one reported: a check that cannot fail is worthless. */
import { expect, test } from "vitest";
import { always, atRest, checkAlways, checkAtRest } from "../../../dev/chaos/checker.ts";
import type {
  DeploymentFacts,
  Expected,
  FailedJob,
  History,
  ObjectWrite,
  PullRequestFacts,
  Push,
  Rest,
  Run,
  StatusWrite,
} from "../../../dev/chaos/history.ts";

const [red, blue] = ["1".repeat(40), "2".repeat(40)];

function aRun(run: Partial<Run> = {}): Run {
  return {
    id: "run-1",
    pid: 1,
    replica: "r1",
    command: "deploy",
    deployment: "shop",
    commit: red,
    mutating: true,
    holder: "r1-holder",
    startedAt: 100,
    endedAt: 200,
    exitCode: 0,
    hash: "hash-red",
    wrote: 1,
    ...run,
  };
}

function aWrite(write: Partial<ObjectWrite> = {}): ObjectWrite {
  return { version: 11, at: 150, name: "shop-a", deleted: false, data: { color: "red" }, run: "run-1", ...write };
}

function aPush(push: Partial<Push> = {}): Push {
  return { repo: "shop", commit: red, at: 50, paths: [], ...push };
}

interface StatusOverrides extends Partial<Omit<StatusWrite, "status" | "spec">> {
  readonly status?: Partial<StatusWrite["status"]>;
  readonly spec?: Partial<StatusWrite["spec"]>;
}

function aStatus({ status, spec, ...write }: StatusOverrides = {}): StatusWrite {
  return {
    version: 20,
    at: 300,
    deployment: "shop",
    uid: "uid",
    generation: 1,
    deleted: false,
    deleting: false,
    requests: { pending: [], taken: [] },
    spec: { suspend: false, manual: false, ...spec },
    status: {
      observedCommit: red,
      includedCommits: [],
      observedGeneration: 1,
      lastObjectsHash: "hash",
      drift: "no drift",
      deployErrors: 0,
      ready: { status: "True", reason: "ReconciliationSucceeded", message: "deploy succeeded." },
      reconciling: false,
      ...status,
    },
    ...write,
  };
}

/** A pull request whose comment is about its head and base and reports what merging changes. */
function aPullRequest(facts: Partial<PullRequestFacts> = {}): PullRequestFacts {
  return {
    name: "shop#1",
    state: "open",
    isConcerned: true,
    comments: ["+color: blue\nMerge of `2222222` into `main` at `1111111`"],
    says: ["`2222222`", "`main`", "at `1111111`", "blue"],
    check: "success",
    ...facts,
  };
}

const pulls = (facts: Partial<PullRequestFacts>) => aRest({ pullRequests: [aPullRequest(facts)] });

const redContent: Expected = { objects: new Map([["shop-a", { color: "red" }]]), hash: "hash-red" };

function aDeployment(facts: Partial<DeploymentFacts> = {}): DeploymentFacts {
  return { name: "shop", repo: "shop", path: "shop", often: true, prunes: false, ...facts };
}

/** One deployment that was deployed once and is ready. */
function aHistory(history: Partial<History> = {}): History {
  return {
    sweeps: true,
    deployments: [aDeployment()],
    runs: [aRun()],
    objects: [aWrite()],
    leases: [
      { version: 10, at: 90, deployment: "shop", holder: "r1-holder" },
      { version: 19, at: 290, deployment: "shop", holder: "" },
    ],
    statuses: [aStatus()],
    pushes: [aPush()],
    deliveries: [],
    rendered: new Map([["shop", new Map([[red, redContent]])]]),
    wrongSkips: [],
    ...history,
  };
}

function aRest(rest: Partial<Rest> = {}): Rest {
  const nothing = {
    queued: [],
    failed: [],
    begun: [],
    strayKeys: [],
    leftovers: [],
    descriptors: [],
    pullRequests: [],
  };
  return { expected: new Map([["shop", redContent]]), healedAt: 1_000, ...nothing, ...rest };
}

function violated(history: History, rest: Rest = aRest()): string[] {
  const found = [...checkAlways(history), ...checkAtRest(history, rest)];
  return [...new Set(found.map(({ invariant }) => invariant))];
}

const brokenBefore = aStatus({ status: { ready: { status: "False", reason: "DeployFailed", message: "no" } } });

/** A job that was given up long after all faults had ended. */
function aFailure(job: Partial<FailedJob> = {}): FailedJob {
  return { lane: "reconcile", subject: "shop", reason: "failed too often", at: 100_000, ...job };
}

/** An object that only blue renders. */
const [extra, blueContent] = [
  aWrite({ name: "shop-extra", data: { color: "blue" } }),
  { objects: new Map([["shop-extra", { color: "blue" }]]), hash: "hash-blue" },
];
const rendersBoth = new Map([
  [
    "shop",
    new Map<string, Expected>([
      [red, redContent],
      [blue, blueContent],
    ]),
  ],
]);

/** Two deployments with the same discriminator. */
function aGroup(first: StatusOverrides, second: StatusOverrides): History {
  const group = "shops";
  return aHistory({
    deployments: [aDeployment({ group }), aDeployment({ name: "copy", path: "copy", group })],
    statuses: [aStatus(first), aStatus({ deployment: "copy", ...second })],
  });
}
const refused: StatusOverrides = {
  status: {
    ready: { status: "False", reason: "DeployFailed", message: "not deployed: same discriminator" },
  },
};
const inBoth = aRest({ expected: new Map([["shop", redContent]]) });

/** Without sweeps, a delivery about blue was accepted, and the deployment has been suspended much later. */
function anAcceptedDelivery(history: Partial<History> = {}): History {
  return aHistory({
    sweeps: false,
    pushes: [aPush(), aPush({ commit: blue, at: 310, paths: ["shop/a.yml"] })],
    deliveries: [{ repo: "shop", commit: blue, at: 320, status: 202 }],
    statuses: [aStatus(), aStatus({ at: 400_000, spec: { suspend: true } })],
    ...history,
  });
}

/** Another deployment of the same repository, whose history must not be taken for that of the first one. */
const site = aDeployment({ name: "site", path: "site" });
const withSite = (history: Partial<History> = {}) => aHistory({ deployments: [aDeployment(), site], ...history });
const notReady: StatusOverrides = { status: { ready: { status: "False", reason: "DeployFailed", message: "no" } } };
/** A deployment that waits for shop, with the facts and the status that are given. */
const dependent = (status: StatusOverrides, ofShop: StatusOverrides = {}) =>
  aHistory({
    deployments: [aDeployment(), aDeployment({ name: "after", dependsOn: "shop" })],
    statuses: [aStatus(ofShop), aStatus({ deployment: "after", ...status })],
  });
const approved = { manual: true, manualObjectsHash: "hash" };
const rollout = "<!-- towline: rollout of 2222222 failed -->";
const merged: Partial<PullRequestFacts> = { state: "merged", isConcerned: false, says: ["merged into `main`"] };

/** The commit that is deployed is deployed again later. */
const again = aRun({ id: "run-2", startedAt: 400, endedAt: 500, wrote: 0 });
function deployedTwice({ statuses = [aStatus()], ...history }: Partial<History>, last: StatusOverrides = {}): History {
  return aHistory({ runs: [aRun(), again], statuses: [...statuses, aStatus({ at: 510, ...last })], ...history });
}
const changed: StatusOverrides = { generation: 2, status: { observedGeneration: 2 } };
const asked: StatusOverrides = { requests: { pending: [], taken: ["deploy 1"] } };

/** The same of a repository that the deployment includes. */
function anAcceptedInclude(history: Partial<History> = {}): History {
  return anAcceptedDelivery({
    deployments: [aDeployment({ includes: "base" })],
    pushes: [aPush(), aPush({ repo: "base", commit: red, at: 60 }), aPush({ repo: "base", commit: blue, at: 310 })],
    deliveries: [{ repo: "base", commit: blue, at: 320, status: 202 }],
    statuses: [included(red), included(red, { at: 400_000, spec: { suspend: true } })],
    ...history,
  });
}
const included = (commit: string, status: StatusOverrides = {}) =>
  aStatus({ ...status, status: { includedCommits: [commit] } });

/** The histories that violate an invariant, and no other, by the name of the invariant. */
const planted: Readonly<Record<string, readonly (readonly [string, History, Rest?])[]>> = {
  "no two mutating runs of one deployment overlap": [
    [
      "a second run begins while the first is alive",
      aHistory({ runs: [aRun(), aRun({ id: "run-2", startedAt: 199, endedAt: 250, wrote: 0, exitCode: undefined })] }),
    ],
  ],
  "nothing is written by a run whose Lease belongs to somebody else": [
    [
      "another took the Lease before the write",
      aHistory({
        leases: [
          { version: 9, at: 90, deployment: "shop", holder: "r1-holder" },
          { version: 10, at: 140, deployment: "shop", holder: "r2-holder" },
        ],
      }),
    ],
    [
      "the Lease was released before the write",
      aHistory({
        leases: [
          { version: 9, at: 90, deployment: "shop", holder: "r1-holder" },
          { version: 10, at: 140, deployment: "shop", holder: "" },
        ],
      }),
    ],
    [
      "only the Lease of another deployment has its holder",
      withSite({
        leases: [
          { version: 9, at: 90, deployment: "shop", holder: "r2-holder" },
          { version: 10, at: 90, deployment: "site", holder: "r1-holder" },
        ],
      }),
    ],
    ["nobody ever took the Lease", aHistory({ runs: [aRun({ holder: "" })], leases: [] })],
    [
      "a delete went on after another took the Lease",
      aHistory({
        runs: [aRun(), aRun({ id: "run-2", command: "delete", startedAt: 250, endedAt: 400, holder: "r1-again" })],
        objects: [aWrite(), aWrite({ version: 30, at: 310, run: undefined, deleted: true })],
        leases: [
          { version: 10, at: 90, deployment: "shop", holder: "r1-holder" },
          { version: 21, at: 240, deployment: "shop", holder: "r1-again" },
          { version: 29, at: 305, deployment: "shop", holder: "r2-holder" },
        ],
        statuses: [aStatus({ deleted: true })],
      }),
    ],
    [
      "an object was pruned after another took the Lease",
      aHistory({
        objects: [
          aWrite(),
          aWrite({ ...extra, version: 12, run: "run-1" }),
          aWrite({ ...extra, version: 30, at: 310, run: undefined, deleted: true }),
        ],
        rendered: rendersBoth,
        leases: [
          { version: 10, at: 90, deployment: "shop", holder: "r1-holder" },
          { version: 29, at: 305, deployment: "shop", holder: "r2-holder" },
        ],
      }),
    ],
    [
      "a kluctl that does not name itself wrote after another took the Lease",
      aHistory({
        runs: [aRun({ wrote: 0 })],
        objects: [aWrite({ run: undefined })],
        leases: [
          { version: 9, at: 90, deployment: "shop", holder: "r1-holder" },
          { version: 10, at: 140, deployment: "shop", holder: "r2-holder" },
        ],
      }),
    ],
  ],
  "what is applied never goes back to an older push": [
    [
      "red is deployed after blue, and the branch stayed at blue",
      aHistory({
        pushes: [aPush({ at: 10 }), aPush({ commit: blue, at: 20 })],
        runs: [aRun({ commit: blue }), aRun({ id: "run-2", startedAt: 210, endedAt: 220 })],
        statuses: [aStatus({ status: { observedCommit: blue } })],
      }),
    ],
    [
      "the same, while another deployment stays at red",
      withSite({
        pushes: [aPush({ at: 10 }), aPush({ commit: blue, at: 20 })],
        runs: [
          aRun({ commit: blue }),
          aRun({ id: "run-3", deployment: "site", startedAt: 205, endedAt: 206 }),
          aRun({ id: "run-2", startedAt: 210, endedAt: 220 }),
        ],
        statuses: [aStatus({ status: { observedCommit: blue } })],
      }),
    ],
    [
      "the same, by a kluctl that does not report what it writes",
      aHistory({
        pushes: [aPush({ at: 10 }), aPush({ commit: blue, at: 20 })],
        runs: [aRun({ commit: blue, wrote: 0 }), aRun({ id: "run-2", startedAt: 4_000, endedAt: 4_100, wrote: 0 })],
        objects: [
          aWrite({ run: undefined, data: { color: "blue" } }),
          aWrite({ run: undefined, version: 15, at: 4_050 }),
        ],
        statuses: [aStatus({ status: { observedCommit: blue } })],
      }),
    ],
  ],
  "nothing is deployed twice whose first end was recorded": [
    [
      "the same commit is deployed again after its end was recorded",
      aHistory({
        runs: [aRun(), aRun({ id: "run-2", startedAt: 400, endedAt: 500, wrote: 0 })],
        statuses: [aStatus(), aStatus({ at: 510 })],
      }),
    ],
    ["a request is carried out twice", deployedTwice({ statuses: [aStatus({ at: 90, ...asked }), aStatus(asked)] })],
    [
      "a request is carried out twice, although its result was recorded",
      deployedTwice({ statuses: [aStatus({ at: 90, ...asked }), aStatus(), aStatus({ at: 350, ...asked })] }),
    ],
    [
      "another deployment changed meanwhile",
      deployedTwice({
        deployments: [aDeployment(), aDeployment({ name: "site" })],
        runs: [aRun(), aRun({ id: "run-3", deployment: "site", wrote: 0, hash: "hash-site" }), again],
        objects: [aWrite(), aWrite({ name: "site-a", version: 30, at: 310, run: "person" })],
        statuses: [
          aStatus(),
          aStatus({ at: 310, deployment: "site", requests: { pending: ["deploy 2"], taken: [] } }),
          aStatus({ at: 320, deployment: "site", generation: 2, status: { observedGeneration: 2 } }),
        ],
      }),
    ],
  ],
  "whoever is called ready at a commit has what it renders": [
    [
      "it had the content of another commit",
      aHistory({ objects: [aWrite({ run: "run-0", data: { color: "blue" } }), aWrite({ version: 25, run: "run-0" })] }),
    ],
    [
      "an object was gone for a while",
      aHistory({
        objects: [
          aWrite(),
          aWrite({ version: 15, run: undefined, deleted: true }),
          aWrite({ version: 25, run: "run-0" }),
        ],
      }),
    ],
    [
      "it was called ready before it was deployed",
      aHistory({ statuses: [aStatus({ version: 5 }), aStatus({ version: 20 })] }),
    ],
  ],
  "no skip was wrong": [["a server says so", aHistory({ wrongSkips: ["shop"] })]],
  "nothing is in progress": [
    ["a reconciliation that nobody ends", aHistory({ statuses: [aStatus({ status: { reconciling: true } })] })],
    ["a kluctl that nobody ends", aHistory({ runs: [aRun({ endedAt: undefined, exitCode: undefined })] })],
  ],
  "nothing begins by itself": [
    [
      "two jobs request each other endlessly",
      aHistory(),
      aRest({ begun: ["preview", "report"].map((kind) => ({ what: `a ${kind} job`, subject: `${kind}:shop#1` })) }),
    ],
    [
      "a deployment that is not checked by the interval is reconciled again",
      aHistory({ deployments: [aDeployment({ often: false })] }),
      aRest({ begun: [{ what: "a kluctl diff", subject: "shop" }] }),
    ],
  ],
  "every 202 is followed by its work": [
    ["the deployment had minutes, and never read the commit", anAcceptedDelivery()],
    ["the same of a repository that it includes", anAcceptedInclude()],
    [
      "only another deployment read the commit",
      anAcceptedDelivery({
        deployments: [aDeployment(), site],
        runs: [aRun(), aRun({ id: "run-2", deployment: "site", commit: blue, startedAt: 330, wrote: 0 })],
        statuses: [
          aStatus({ at: 311 }),
          aStatus({ at: 312, deployment: "site", spec: { suspend: true }, status: { observedCommit: blue } }),
          aStatus({ at: 350, deployment: "site", spec: { suspend: true }, status: { observedCommit: blue } }),
          aStatus({ at: 400_000, spec: { suspend: true } }),
        ],
      }),
    ],
  ],
  "each deployment is ready at its head, or says why not": [
    [
      "it stays at an older commit",
      aHistory({
        pushes: [aPush(), aPush({ commit: blue, at: 60 })],
      }),
    ],
    [
      "a webhook told of a commit, and it stays at the one before",
      aHistory({ sweeps: false, pushes: [aPush(), aPush({ commit: blue, at: 60, paths: ["shop/a.yml"] })] }),
    ],
    ["it is not ready, and its head is fine", aHistory({ statuses: [brokenBefore] })],
    ["it is not ready, and what it depends on is", dependent(notReady)],
    [
      "its changes are approved, and it is not ready",
      aHistory({ statuses: [aStatus({ ...notReady, spec: approved })] }),
    ],
    [
      "its branch is deleted, and it is called ready",
      aHistory({ pushes: [aPush(), aPush({ commit: undefined, at: 60 })] }),
      aRest({ expected: new Map() }),
    ],
    ["it is refused, and no other deployment has its discriminator", aHistory({ statuses: [aStatus(refused)] })],
    ["a change of the spec is not seen", aHistory({ statuses: [aStatus({ generation: 2 })] })],
    [
      "its head cannot be rendered, and no error is named",
      aHistory({ statuses: [brokenBefore] }),
      aRest({ expected: new Map([["shop", { error: "not YAML" }]]) }),
    ],
  ],
  "one of the deployments with the same discriminator is deployed": [
    ["each is refused because of the other", aGroup(refused, refused), inBoth],
    ["both are deployed", aGroup({}, {}), inBoth],
  ],
  "what is ready is what its head renders": [
    [
      "an object that only an older commit renders was not pruned",
      aHistory({
        deployments: [aDeployment({ prunes: true })],
        objects: [aWrite(), extra],
        rendered: rendersBoth,
        statuses: [aStatus({ status: { drift: "1 orp" } })],
      }),
    ],
    [
      "what is approved was not deployed",
      aHistory({ statuses: [aStatus({ spec: approved })], objects: [aWrite({ data: { color: "blue" } })] }),
    ],
    [
      "there is an object that no commit renders",
      aHistory({ objects: [aWrite(), extra], statuses: [aStatus({ status: { drift: "1 orp" } })] }),
    ],
    [
      "a user changed an object, and the next deploy left it so",
      aHistory({
        objects: [aWrite(), aWrite({ version: 25, at: 350, run: "person", data: { color: "of a person" } })],
        runs: [aRun(), aRun({ id: "run-2", startedAt: 400, endedAt: 500, wrote: 0 })],
        statuses: [aStatus({ status: { drift: "1 chg" } })],
      }),
    ],
    [
      "half of another commit stayed",
      aHistory({ objects: [aWrite(), aWrite({ version: 25, run: "run-0", data: { color: "blue" } })] }),
    ],
    [
      "an object is missing",
      aHistory({ objects: [aWrite(), aWrite({ version: 15, run: undefined, deleted: true })], rendered: new Map() }),
    ],
  ],
  "what people changed is reported as drift": [
    [
      "an object was edited",
      aHistory({ objects: [aWrite(), aWrite({ version: 30, run: "person", data: { color: "of a person" } })] }),
    ],
    [
      "an object was edited after its deploy was approved",
      aHistory({
        objects: [aWrite(), aWrite({ version: 30, run: "person", data: { color: "of a person" } })],
        statuses: [aStatus({ spec: approved })],
      }),
    ],
    ["an object was deleted", aHistory({ objects: [aWrite(), aWrite({ version: 30, run: "person", deleted: true })] })],
    [
      "an object that the head does not render is left of an older commit",
      aHistory({ objects: [aWrite(), extra], rendered: rendersBoth }),
    ],
  ],
  "the queue is empty": [["a job waits", aHistory(), aRest({ queued: ["reconcile job 1 (wait)"] })]],
  "no job was given up without a reason": [
    [
      "a job stalled",
      aHistory(),
      aRest({ failed: [aFailure({ reason: "job stalled more than allowable limit", at: 500 })] }),
    ],
    ["a job failed too often long after the faults", aHistory(), aRest({ failed: [aFailure()] })],
    [
      "a job failed permanently, and the head is fine",
      aHistory(),
      aRest({ failed: [aFailure({ reason: "failed permanently: a change is needed" })] }),
    ],
    [
      "a job failed permanently during the faults, and only the status of another deployment said why",
      withSite({
        statuses: [aStatus(), aStatus({ deployment: "site", ...notReady, at: 200 }), aStatus({ deployment: "site" })],
      }),
      aRest({ failed: [aFailure({ reason: "failed permanently: a change is needed", at: 500 })] }),
    ],
  ],
  "nothing in Redis outlives its job": [["a lock", aHistory(), aRest({ strayKeys: ["chaos:reconcile:1:lock"] })]],
  "nothing of a dead replica is left": [["a process", aHistory(), aRest({ leftovers: ["r1: process 7"] })]],
  "no server keeps files and sockets open": [
    ["a socket of each fault", aHistory(), aRest({ descriptors: [{ replica: "r1", first: 40, last: 90 }] })],
  ],
  "each pull request has one comment, about its head and base": [
    [
      "two replicas wrote one each",
      aHistory(),
      pulls({ comments: [...aPullRequest().comments, "Merge of `2222222`"] }),
    ],
    ["there is none", aHistory(), pulls({ comments: [] })],
    [
      "it is about an older head",
      aHistory(),
      pulls({ comments: ["+blue\nMerge of `3333333` into `main` at `1111111`"] }),
    ],
    [
      "it is about another base",
      aHistory(),
      pulls({ comments: ["+blue\nMerge of `2222222` into `stable` at `1111111`"] }),
    ],
    [
      "the base has moved since",
      aHistory(),
      pulls({ comments: ["+blue\nMerge of `2222222` into `main` at `4444444`"] }),
    ],
    ["it says nothing of a change", aHistory(), pulls({ comments: ["Merge of `2222222` into `main` at `1111111`"] })],
    [
      "it failed at an older head",
      aHistory(),
      pulls({ comments: ["could not be compared\nHead `3333333`, base `main`"] }),
    ],
    [
      "it is open again, and the comment says that it is closed",
      aHistory(),
      pulls({ comments: ["closed without merging\nMerge of `2222222` into `stable`"] }),
    ],
    [
      "it is merged, and its author is mentioned twice",
      aHistory(),
      pulls({ ...merged, comments: ["merged into `main`", rollout, rollout] }),
    ],
    ["it is open, and its author is mentioned", aHistory(), pulls({ comments: [...aPullRequest().comments, rollout] })],
    [
      "it is merged, and the comment looks as if it were open",
      aHistory(),
      pulls({ state: "merged", isConcerned: false, says: ["merged into `main`"] }),
    ],
  ],
  "the check of each open pull request comes to an end": [
    ["it is pending for ever", aHistory(), pulls({ check: "pending" })],
    ["it never came", aHistory(), pulls({ check: undefined })],
  ],
};

test("a correct history violates nothing", () => {
  expect(violated(aHistory())).toEqual([]);
});

test("each invariant has histories that violate it", () => {
  expect(Object.keys(planted)).toEqual([...always, ...atRest].map(({ name }) => name));
});

const cases = Object.entries(planted).flatMap(([invariant, histories]) =>
  histories.map(([what, history, rest]) => ({ invariant, what, history, rest })),
);

test.each(cases)("$invariant: $what", ({ invariant, history, rest }) => {
  expect(violated(history, rest)).toEqual([invariant]);
});

test("a deployment that is ready at a head that cannot be rendered violates the invariant about its content", () => {
  const rest = aRest({ expected: new Map([["shop", { error: "not YAML" }]]) });
  expect(violated(aHistory(), rest)).toEqual(["what is ready is what its head renders"]);
});

const allowed: readonly (readonly [string, History, Rest?])[] = [
  [
    "a commit is deployed again because the end of its first deploy was never recorded",
    aHistory({
      runs: [aRun(), aRun({ id: "run-2", startedAt: 400, endedAt: 500, wrote: 0 })],
      statuses: [aStatus({ status: { lastObjectsHash: undefined } }), aStatus({ at: 510 })],
    }),
  ],
  [
    "a commit is deployed again because somebody asked for it",
    aHistory({
      runs: [aRun(), aRun({ id: "run-2", startedAt: 400, endedAt: 500, wrote: 0 })],
      statuses: [aStatus(), aStatus({ at: 350, requests: { pending: ["deploy 1"], taken: [] } }), aStatus({ at: 510 })],
    }),
  ],
  [
    "a commit is deployed again because somebody asked for it while the first request was carried out",
    deployedTwice({
      statuses: [
        aStatus({ at: 90, ...asked }),
        aStatus({ at: 150, requests: { pending: ["deploy 2"], taken: ["deploy 1"] } }),
        aStatus({ requests: { pending: ["deploy 2"], taken: [] } }),
        aStatus({ at: 350, requests: { pending: [], taken: ["deploy 2"] } }),
      ],
    }),
  ],
  [
    "a commit is deployed again after a change of the spec",
    deployedTwice({ statuses: [aStatus(), aStatus({ at: 350, ...changed }), aStatus({ at: 500, ...changed })] }),
  ],
  [
    "a commit is deployed again after a change of the spec that its first deploy did not have",
    deployedTwice({ statuses: [aStatus({ generation: 2 }), aStatus({ at: 390, generation: 2 })] }, changed),
  ],
  [
    "a commit is deployed again because the deployment was created again",
    deployedTwice({ statuses: [aStatus(), aStatus({ at: 350, uid: "another" })] }),
  ],
  [
    "a commit is deployed again because it renders something else, as another repository has changed",
    deployedTwice({ runs: [aRun({ hash: "hash-before" }), again] }),
  ],
  [
    "another commit is deployed",
    deployedTwice({
      pushes: [aPush({ commit: blue, at: 10 }), aPush()],
      runs: [aRun({ commit: blue }), again],
      statuses: [aStatus({ status: { observedCommit: blue } })],
      rendered: new Map(),
    }),
  ],
  [
    "each of two deployments is deployed once",
    withSite({
      runs: [aRun(), aRun({ ...again, deployment: "site" })],
      statuses: [aStatus(), aStatus({ deployment: "site" }), aStatus({ at: 510 })],
    }),
  ],
  [
    "each of two deployments is deployed at its own commit, one after the other",
    withSite({
      pushes: [aPush({ at: 10 }), aPush({ commit: blue, at: 20 }), aPush({ at: 250 })],
      runs: [aRun({ commit: blue, deployment: "site" }), aRun({ id: "run-2", startedAt: 210, endedAt: 220 })],
      objects: [aWrite({ run: "run-2" })],
    }),
  ],
  [
    "the end of a deploy is recorded of another deployment only",
    withSite({
      runs: [aRun(), again],
      statuses: [
        aStatus({ status: { lastObjectsHash: undefined } }),
        aStatus({ deployment: "site" }),
        aStatus({ at: 510 }),
      ],
    }),
  ],
  ["what is not ready depends on something that is not", dependent(notReady, { spec: { suspend: true }, ...notReady })],
  [
    "the branch is set back to an older commit, which is deployed",
    aHistory({
      pushes: [aPush({ at: 10 }), aPush({ commit: blue, at: 20 }), aPush({ at: 205 })],
      runs: [aRun({ commit: blue }), aRun({ id: "run-2", startedAt: 210, endedAt: 220 })],
    }),
  ],
  [
    "no webhook told of a commit that is of another project, and nobody looks",
    aHistory({ sweeps: false, pushes: [aPush(), aPush({ commit: blue, at: 60, paths: ["shopping/a.yml"] })] }),
  ],
  [
    "what waits for approval is not deployed",
    aHistory({ statuses: [aStatus({ spec: { manual: true } })], objects: [aWrite({ data: { color: "blue" } })] }),
  ],
  [
    "a head that cannot be rendered is named in the status",
    aHistory({
      statuses: [
        aStatus({
          status: { lastPrepareError: "not YAML", ready: { status: "False", reason: "PrepareFailed", message: "" } },
        }),
      ],
    }),
    aRest({ expected: new Map([["shop", { error: "not YAML" }]]) }),
  ],
  [
    "one of two deployments with the same discriminator is refused",
    aGroup({}, refused),
    aRest({ failed: [aFailure({ subject: "copy", reason: "failed permanently: a change is needed" })] }),
  ],
  [
    "a deployment with another discriminator is deployed as well",
    withSite({
      deployments: [aDeployment({ group: "shops" }), aDeployment({ name: "copy", path: "copy", group: "shops" }), site],
      statuses: [aStatus(), aStatus({ deployment: "copy", ...refused }), aStatus({ deployment: "site" })],
    }),
  ],
  [
    "a delivery was accepted, and the deployment was suspended soon",
    anAcceptedDelivery({
      statuses: [aStatus(), aStatus({ at: 1_000, spec: { suspend: true } })],
    }),
  ],
  [
    "a delivery was accepted, and another deployment was suspended much later",
    anAcceptedDelivery({
      deployments: [aDeployment(), site],
      statuses: [
        aStatus(),
        aStatus({ deployment: "site", at: 310, spec: { suspend: true } }),
        aStatus({ at: 340, status: { observedCommit: blue } }),
        aStatus({ at: 400_000, spec: { suspend: true } }),
      ],
    }),
  ],
  [
    "a delivery was accepted, and a newer commit was read",
    anAcceptedDelivery({
      pushes: [aPush(), aPush({ commit: blue, at: 310 }), aPush({ at: 330 })],
      statuses: [aStatus(), aStatus({ at: 340 }), aStatus({ at: 400_000, spec: { suspend: true } })],
    }),
  ],
  [
    "a delivery about an included repository was accepted, and a run read what git had",
    anAcceptedInclude({
      runs: [aRun(), aRun({ id: "run-2", command: "diff", mutating: false, startedAt: 330, wrote: 0 })],
    }),
  ],
  [
    "a delivery about an included repository was accepted, and its commit was recorded",
    anAcceptedInclude({
      statuses: [included(red), included(blue, { at: 340 }), included(blue, { at: 400_000, spec: { suspend: true } })],
    }),
  ],
  [
    "a delivery about an included repository was accepted, of which the deployment had the commit before",
    anAcceptedInclude({
      statuses: [included(blue), included(blue, { at: 315 }), included(blue, { at: 400_000, spec: { suspend: true } })],
    }),
  ],
  [
    "a delivery about a repository that it does not include was accepted",
    anAcceptedInclude({ deployments: [aDeployment()] }),
  ],
  [
    "a delivery was accepted about the commit that was read before",
    anAcceptedDelivery({
      pushes: [aPush(), aPush({ commit: undefined, at: 300 }), aPush({ at: 310 })],
      deliveries: [{ repo: "shop", commit: red, at: 320, status: 202 }],
    }),
  ],
  [
    "a delivery was not accepted",
    anAcceptedDelivery({
      deliveries: [{ repo: "shop", commit: blue, at: 320, status: 503 }],
    }),
  ],
  [
    "a deployment is checked by the interval",
    aHistory(),
    aRest({ begun: [{ what: "a reconcile job", subject: "shop" }] }),
  ],
  [
    "a job failed too often during the faults",
    aHistory(),
    aRest({ failed: [aFailure({ at: 500 }), aFailure({ at: undefined })] }),
  ],
  [
    "an orphan stays without prune",
    aHistory({
      deployments: [aDeployment({ often: false })],
      objects: [aWrite(), extra],
      rendered: rendersBoth,
    }),
  ],
  [
    "a large prune waits for its confirmation",
    aHistory({
      deployments: [aDeployment({ prunes: true, often: false })],
      objects: [aWrite(), extra],
      rendered: rendersBoth,
      statuses: [
        aStatus({ status: { ready: { status: "True", reason: "Succeeded", message: "They are not pruned until" } } }),
      ],
    }),
  ],
  [
    "an object is pruned under the Lease of the deploy before it",
    aHistory({
      objects: [aWrite(), extra, aWrite({ ...extra, version: 15, at: 210, run: undefined, deleted: true })],
      rendered: rendersBoth,
    }),
  ],
  [
    "a user deletes an object while nobody holds the Lease",
    aHistory({
      objects: [aWrite(), aWrite({ version: 30, at: 310, run: "person", deleted: true })],
      statuses: [aStatus({ status: { drift: "1 new" } })],
    }),
  ],
  [
    "a user changed an object after the last deploy",
    aHistory({
      objects: [aWrite(), aWrite({ version: 30, at: 310, run: "person", data: { color: "of a person" } })],
      statuses: [aStatus({ status: { drift: "1 chg" } })],
    }),
  ],
  [
    "a suspended deployment is left alone",
    aHistory({ statuses: [aStatus({ spec: { suspend: true }, generation: 2 })] }),
  ],
];

const rightPulls: readonly (readonly [string, Partial<PullRequestFacts>])[] = [
  ["its comment says what merging changes", {}],
  ["its merge concerns no deployment, and there is no comment", { isConcerned: false, comments: [] }],
  [
    "what could not be compared says so, about its head and base",
    { comments: ["1 of 1 deployments could not be compared\nHead `2222222`, base `main`"] },
  ],
  ["it was closed before anybody commented", { state: "closed", isConcerned: false, comments: [], says: ["closed"] }],
];

test("the author of a merge whose rollout failed may be mentioned once", () => {
  expect(violated(aHistory(), pulls({ ...merged, comments: ["merged into `main`", rollout] }))).toEqual([]);
});

test.each(rightPulls.map(([what, facts]) => ({ what, facts })))("allowed for a pull request: $what", ({ facts }) => {
  expect(violated(aHistory(), pulls(facts))).toEqual([]);
});

test.each(allowed.map(([what, history, rest]) => ({ what, history, rest })))("allowed: $what", ({ history, rest }) => {
  expect(violated(history, rest)).toEqual([]);
});
