/** The invariants of an episode. Pure: reads the history and the final state, and reports each violation. */
import {
  concerns,
  describe,
  factsOf,
  isOfPerson,
  isRefused,
  lastWrites,
  liveObjectsOf,
  ownerOf,
  possibleWriters,
  present,
  pushesOf,
  pushIndex,
  runsThatWrote,
  time,
  waitsForApproval,
} from "./facts.ts";
import type {
  Delivery,
  DeploymentFacts,
  Expected,
  FailedJob,
  History,
  ObjectWrite,
  Rest,
  Run,
  StatusWrite,
} from "./history.ts";

export interface Invariant {
  readonly name: string;
  readonly check: (history: History) => readonly string[];
}

export interface RestInvariant {
  readonly name: string;
  readonly check: (history: History, rest: Rest) => readonly string[];
}

export interface Violation {
  readonly invariant: string;
  readonly what: string;
}

/** Invariants that hold at every moment. */
export const always: readonly Invariant[] = [
  { name: "no two mutating runs of one deployment overlap", check: overlaps },
  { name: "nothing is written by a run whose Lease belongs to somebody else", check: unfencedWrites },
  { name: "what is applied never goes back to an older push", check: goingBack },
  { name: "nothing is deployed twice whose first end was recorded", check: repeats },
  { name: "whoever is called ready at a commit has what it renders", check: wronglyReady },
  { name: "no skip was wrong", check: ({ wrongSkips }) => wrongSkips },
];

/** Invariants that hold once all faults have ended and the system has settled. */
export const atRest: readonly RestInvariant[] = [
  { name: "nothing is in progress", check: inProgress },
  { name: "nothing begins by itself", check: beginning },
  { name: "every 202 is followed by its work", check: unfollowed },
  { name: "each deployment is ready at its head, or says why not", check: unready },
  { name: "one of the deployments with the same discriminator is deployed", check: misjudgedGroups },
  { name: "what is ready is what its head renders", check: otherContent },
  { name: "what people changed is reported as drift", check: untoldDrift },
  { name: "the queue is empty", check: (_, { queued }) => queued.map((job) => `${job} is there still`) },
  { name: "no job was given up without a reason", check: givenUp },
  { name: "nothing in Redis outlives its job", check: (_, { strayKeys }) => strayKeys.map((key) => `${key} is there`) },
  { name: "nothing of a dead replica is left", check: (_, { leftovers }) => leftovers },
  { name: "no server keeps files and sockets open", check: unclosed },
  { name: "each pull request has one comment, about its head and base", check: otherComments },
  { name: "the check of each open pull request comes to an end", check: openChecks },
];

export function checkAlways(history: History): Violation[] {
  return always.flatMap(({ name, check }) => check(history).map((what) => ({ invariant: name, what })));
}

export function checkAtRest(history: History, rest: Rest): Violation[] {
  return atRest.flatMap(({ name, check }) => check(history, rest).map((what) => ({ invariant: name, what })));
}

function overlaps({ runs }: History): string[] {
  const mutating = runs.filter((run) => run.mutating);
  return mutating.flatMap((run, i) =>
    mutating
      .slice(i + 1)
      .filter((other) => other.deployment === run.deployment && other.startedAt < (run.endedAt ?? Infinity))
      .map((other) => `${describe(other)} began while ${describe(run)} was alive`),
  );
}

function unfencedWrites(history: History): string[] {
  return history.objects.flatMap((write) => {
    const writers = possibleWriters(history, write).filter(({ holder }) => holder !== undefined);
    const [writer] = writers;
    if (writer === undefined) return [];
    const { deployment } = writer;
    const held = history.leases.findLast((one) => one.deployment === deployment && one.version < write.version)?.holder;
    if (writers.some(({ holder }) => holder === held && holder !== "")) return [];
    const what = `${write.name} was ${write.deleted ? "deleted" : "written"} under the Lease of ${held || "nobody"}`;
    return [`${what}; ${describe(writer)} began under that of ${writer.holder || "nobody"}`];
  });
}

/** Resetting the branch to an earlier commit is a new push: that commit counts as the newest from then on. */
function goingBack(history: History): string[] {
  const wrote = runsThatWrote(history);
  return history.deployments.flatMap(({ name, repo }) => {
    const theirs = pushesOf(history, repo);
    let newest: { readonly index: number; readonly run: Run } | undefined;
    return history.runs
      .filter((run) => run.deployment === name && run.command === "deploy" && run.mutating && wrote.has(run.id))
      .flatMap((run) => {
        const index = pushIndex(theirs, run.commit, run.startedAt);
        const before = newest;
        if (before === undefined || index >= before.index) newest = { index, run };
        return before !== undefined && index < before.index && index !== -1
          ? [`${describe(run)} is of an older push than ${describe(before.run)}`]
          : [];
      });
  });
}

function repeats(history: History): string[] {
  const { runs, deployments, statuses, objects } = history;
  return deployments.flatMap(({ name }) => {
    const deploys = runs.filter((run) => run.deployment === name && run.command === "deploy" && run.mutating);
    const theirs = statuses.filter((status) => status.deployment === name);
    return deploys.flatMap((run, i) => {
      const first = deploys[i - 1];
      if (first?.exitCode !== 0 || run.exitCode !== 0) return [];
      if (first.commit !== run.commit || first.hash !== run.hash) return [];
      const between = theirs.filter(({ at }) => at >= (first.endedAt ?? first.startedAt) && at <= run.startedAt);
      const recorded = between.find(({ status }) => isRecorded(status) && status.observedCommit === first.commit);
      // A request that the first one carried out is no reason for a second one, even if its result is missing.
      const carriedOut = theirs.findLast(({ at }) => at < (first.endedAt ?? first.startedAt))?.requests.taken ?? [];
      const isNew = (request: string) => !carriedOut.includes(request);
      const isAskedFor = between.some(
        (one, k) =>
          [...one.requests.pending, ...one.requests.taken].some(isNew) || isOther(one, between[k - 1] ?? recorded),
      );
      const touched = objects.some(
        (write) =>
          write.run === "person" &&
          ownerOf(history, write) === name &&
          write.at >= first.startedAt &&
          write.at <= run.startedAt,
      );
      if (recorded === undefined || isAskedFor || touched) return [];
      return [`${describe(run)} repeats ${describe(first)}, whose end was recorded at ${time(recorded.at)}`];
    });
  });
}

function isRecorded({ lastObjectsHash, reconciling, deployErrors }: StatusWrite["status"]): boolean {
  return lastObjectsHash !== undefined && !reconciling && deployErrors === 0;
}

function isOther(one: StatusWrite, other: StatusWrite | undefined): boolean {
  const seen = one.status.observedGeneration ?? one.generation;
  return one.uid !== (other ?? one).uid || one.generation !== (other ?? one).generation || one.generation !== seen;
}

/**
 * Also finds states that a later check repaired: a commit skipped without reason, or objects of two commits applied.
 */
function wronglyReady(history: History): string[] {
  const { statuses, objects, rendered } = history;
  const found = new Map<string, string>();
  const live = new Map<string, ObjectWrite>();
  const writes = objects.values();
  let next = writes.next();
  for (const { version, at, deployment, deleted, spec, generation, status } of inOrder(statuses)) {
    for (; !next.done && next.value.version < version; next = writes.next()) live.set(next.value.name, next.value);
    const wanted = rendered.get(deployment)?.get(status.observedCommit ?? "");
    const isSettled =
      status.ready?.status === "True" && !status.reconciling && status.observedGeneration === generation;
    if (deleted || spec.manual || !isSettled || wanted === undefined || "error" in wanted) continue;
    for (const [object, data] of wanted.objects) {
      const write = live.get(object);
      const isRight = write !== undefined && !write.deleted && JSON.stringify(write.data) === JSON.stringify(data);
      if (isRight || isOfPerson(history, deployment, write, at)) continue;
      const what = `${deployment} is called ready at ${status.observedCommit?.slice(0, 7)}, and ${object} is another`;
      if (!found.has(what)) found.set(what, `${what} (${time(at)})`);
    }
  }
  return [...found.values()];
}

function inOrder<T extends { readonly version: number }>(writes: readonly T[]): T[] {
  return writes.toSorted((a, b) => a.version - b.version);
}

function inProgress(history: History): string[] {
  const live = history.runs.filter((run) => run.endedAt === undefined);
  const statuses = present(history).filter(({ status }) => status.reconciling);
  return [
    ...statuses.map(({ deployment }) => `${deployment} is Reconciling`),
    ...live.map((run) => `${describe(run)} is alive`),
  ];
}

/** Apart from checks by the interval, nothing has a reason to begin. */
function beginning(history: History, { begun }: Rest): string[] {
  const others = begun.filter(({ subject }) => factsOf(history, subject)?.often !== true);
  return [...new Set(others.map(({ what, subject }) => `${what} of ${subject} begins, and nothing has happened`))];
}

/** Longer than the longest outage and the retries after it. */
const graceMs = 300_000;

/** Sweeps would make up for a delivery that was forgotten. */
function unfollowed(history: History): string[] {
  if (history.sweeps) return [];
  return history.deliveries
    .filter(({ status }) => status === 202)
    .flatMap((delivery) =>
      history.deployments
        .filter((deployment) => isNamed(history, delivery, deployment) && isFree(history, delivery, deployment))
        .filter((deployment) => !isFollowed(history, delivery, deployment))
        .map(({ name }) => `${name} did nothing about ${delivery.commit?.slice(0, 7)}, accepted ${time(delivery.at)}`),
    );
}

function isNamed(history: History, { repo, commit, at }: Delivery, deployment: DeploymentFacts): boolean {
  const theirs = pushesOf(history, repo);
  const push = theirs[pushIndex(theirs, commit, at)];
  if (push?.commit === undefined) return false;
  return repo === deployment.includes || (repo === deployment.repo && concerns(push, deployment));
}

/** Whether nothing kept the deployment from being reconciled after the delivery. */
function isFree({ statuses }: History, { at }: Delivery, { name, dependsOn }: DeploymentFacts): boolean {
  const theirs = statuses.filter((status) => status.deployment === name && status.at <= at + graceMs);
  const first = theirs.findLastIndex((status) => status.at <= at);
  const isKept = (one: StatusWrite) => one.deleted || one.deleting || one.spec.suspend || isRefused(one);
  return first !== -1 && dependsOn === undefined && !theirs.slice(first).some(isKept);
}

function isFollowed(history: History, { repo, commit, at }: Delivery, { name, includes }: DeploymentFacts): boolean {
  const theirs = pushesOf(history, repo);
  const index = pushIndex(theirs, commit, at);
  const since = theirs[index]?.at ?? at;
  const isAbout = (one: string | undefined, then: number) => then >= since && pushIndex(theirs, one, then) >= index;
  // A run does not say which commit of another repository it read: what git had when it started, or newer.
  const reads = ({ commit: read, startedAt }: Run) =>
    repo === includes ? startedAt >= since : isAbout(read, startedAt);
  const commitsOf = ({ observedCommit, includedCommits }: StatusWrite["status"]) =>
    repo === includes ? includedCommits : [observedCommit];
  const before = history.statuses.findLast((one) => one.deployment === name && one.at <= at)?.status;
  // The branch was deleted, and is back as it was.
  if (before !== undefined && !before.reconciling && commitsOf(before).includes(commit ?? "")) return true;
  return (
    history.runs.some((run) => run.deployment === name && reads(run)) ||
    history.statuses.some(
      (one) => one.deployment === name && commitsOf(one.status).some((read) => isAbout(read, one.at)),
    )
  );
}

/** After the faults, the last attempts at a job may take this long. */
const lastAttemptsMs = 60_000;

function givenUp(history: History, { failed, expected, healedAt }: Rest): string[] {
  const isExplained = ({ subject, reason, at = 0 }: FailedJob): boolean => {
    if (reason.includes("stalled")) return false;
    if (at <= healedAt + lastAttemptsMs) return !reason.includes("permanently") || saysWhy(history, subject);
    return reason.includes("permanently") && isPoisoned(history, expected, subject);
  };
  return failed.filter((job) => !isExplained(job)).map(({ lane, subject, reason }) => `${lane} ${subject}: ${reason}`);
}

/** Whether the deployment's status ever named a failure. Other jobs have no status. */
function saysWhy(history: History, name: string): boolean {
  if (factsOf(history, name) === undefined) return true;
  return history.statuses.some(({ deployment, status }) => deployment === name && status.ready?.status === "False");
}

function isPoisoned(history: History, expected: Rest["expected"], name: string): boolean {
  const wanted = expected.get(name);
  const seen = present(history).find(({ deployment }) => deployment === name);
  return (wanted !== undefined && "error" in wanted) || (seen !== undefined && mayBeRefused(history, seen));
}

/** It is refused, and there is another deployment with the same discriminator. */
function mayBeRefused(history: History, seen: StatusWrite): boolean {
  const group = factsOf(history, seen.deployment)?.group;
  const isOther = ({ deployment }: StatusWrite) =>
    deployment !== seen.deployment && factsOf(history, deployment)?.group === group;
  return isRefused(seen) && group !== undefined && present(history).some(isOther);
}

function unready(history: History, { expected }: Rest): string[] {
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec, generation } = seen;
    const facts = factsOf(history, name);
    if (facts === undefined || spec.suspend || mayBeRefused(history, seen) || waitsForOther(history, facts)) return [];
    const heads = headsOf(history, facts);
    const head = heads.at(-1);
    const { ready, observedCommit, observedGeneration } = status;
    const words = `Ready is ${ready?.status} (${ready?.reason}: ${ready?.message})`;
    if (head === undefined) return ready?.status === "False" ? [] : [`${name}: its branch is deleted, and ${words}`];
    if (!heads.includes(observedCommit)) return [`${name} is at ${observedCommit}, its head is ${head}; ${words}`];
    if (observedGeneration !== generation)
      return [`${name}: generation ${generation} is not seen, ${observedGeneration} is; ${words}`];
    if (waitsForApproval(seen)) return [];
    if (ready?.status === "True") return [];
    const wrong = expected.get(name);
    const hasError = wrong !== undefined && "error" in wrong && status.lastPrepareError !== undefined;
    return hasError && ready?.status === "False" ? [] : [`${name} at its head ${head}: ${words}`];
  });
}

function misjudgedGroups(history: History): string[] {
  const groups = new Set(history.deployments.flatMap(({ group }) => group ?? []));
  return [...groups].flatMap((group) => {
    const theirs = present(history).filter(({ deployment }) => factsOf(history, deployment)?.group === group);
    if (theirs.length < 2 || theirs.some(({ spec, deleting }) => spec.suspend || deleting)) return [];
    const names = theirs.map(({ deployment }) => deployment).join(" and ");
    const ready = theirs.filter(({ status }) => status.ready?.status === "True");
    if (theirs.every(isRefused)) return [`${names} are refused, each because of another`];
    return ready.length > 1 ? [`${names} are deployed, with the same discriminator`] : [];
  });
}

/**
 * The commits a deployment may rest at: the branch's head; without sweeps, also older ones back to the last push that
 * changed a file in its directory.
 */
function headsOf(history: History, deployment: DeploymentFacts): (string | undefined)[] {
  const theirs = pushesOf(history, deployment.repo);
  const first = history.sweeps ? theirs.length - 1 : theirs.findLastIndex((push) => concerns(push, deployment));
  return theirs.slice(Math.max(0, first)).map(({ commit }) => commit);
}

function otherContent(history: History, { expected }: Rest): string[] {
  const live = lastWrites(history);
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec } = seen;
    const wanted: Expected | undefined = expected.get(name);
    if (wanted === undefined || spec.suspend || status.ready?.status !== "True" || waitsForApproval(seen)) return [];
    if ("error" in wanted) return [`${name} is ready, though its head cannot be rendered: ${wanted.error}`];
    const others = [...wanted.objects].flatMap(([object, data]) => {
      const write = live.get(object);
      if (isOfPerson(history, name, write)) return []; // drift is reported, not deployed
      const found = write === undefined || write.deleted ? "gone" : JSON.stringify(write.data);
      const right = JSON.stringify(data);
      return found === right
        ? []
        : [`${name} is ready at ${status.observedCommit}, and ${object} is ${found} instead of ${right}`];
    });
    const extra = orphansOf(history, name, wanted).filter((object) => isWrong(history, seen, object));
    return [
      ...others,
      ...extra.map((object) => `${name} is ready at ${status.observedCommit}, and ${object} is there`),
    ];
  });
}

/** The objects of the deployment that its head does not render. */
function orphansOf(history: History, name: string, wanted: Expected): string[] {
  if ("error" in wanted) return [];
  return liveObjectsOf(history, name).flatMap((write) => (wanted.objects.has(write.name) ? [] : [write.name]));
}

/** Orphans stay without `prune`, if a commit has ever rendered them. */
function isWrong(history: History, { deployment, status }: StatusWrite, object: string): boolean {
  if (factsOf(history, deployment)?.prunes) return !/not pruned|nothing is pruned/.test(status.ready?.message ?? "");
  const renderings = [...(history.rendered.get(deployment)?.values() ?? [])];
  return renderings.length > 0 && !renderings.some((one) => "objects" in one && one.objects.has(object));
}

function untoldDrift(history: History, { expected }: Rest): string[] {
  const live = lastWrites(history);
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec } = seen;
    const wanted = expected.get(name);
    if (wanted === undefined || "error" in wanted || spec.suspend || status.ready?.status !== "True") return [];
    if (factsOf(history, name)?.often !== true || waitsForApproval(seen) || status.drift !== "no drift") return [];
    const changed = [...wanted.objects].flatMap(([object, data]) => {
      const write = live.get(object);
      const differs = write !== undefined && (write.deleted || JSON.stringify(write.data) !== JSON.stringify(data));
      return differs && write.run === "person" ? [`${name} reports no drift, and somebody changed ${object}`] : [];
    });
    const orphans = orphansOf(history, name, wanted);
    return [...changed, ...orphans.map((object) => `${name} reports no drift, and ${object} is an orphan`)];
  });
}

/** Allowance for connections that are being replaced after an outage. */
const moreDescriptors = 30;

function unclosed(_: History, { descriptors }: Rest): string[] {
  return descriptors
    .filter(({ first, last }) => last > first + moreDescriptors)
    .map(({ replica, first, last }) => `${replica} has ${last} files and sockets open, and had ${first}`);
}

/** A comment that matches reports a failed comparison; its retry comes later than the harness waits. */
const failure = /could not be (?:compared|tried)|cannot be (?:rendered|merged)|not rendered|\d errors?\b/;

function otherComments(_: History, { pullRequests }: Rest): string[] {
  return pullRequests.flatMap(({ name, state, isConcerned, says, comments: all }) => {
    // The author of a merge whose rollout fails is mentioned once, in a comment of its own.
    const mentions = all.filter((body) => mention.test(body));
    const comments = all.filter((body) => !mentions.includes(body));
    if (mentions.length > 1 || (mentions.length > 0 && state === "open"))
      return [`${name} is ${state}, and mentions its author ${mentions.length} times`];
    const [comment] = comments;
    if (comments.length > 1) return [`${name} has ${comments.length} comments`];
    if (comment === undefined) return isConcerned ? [`${name} has no comment`] : [];
    const needed = failure.test(comment) ? says.slice(0, state === "open" ? aboutHeadAndBase : 1) : says;
    return needed
      .filter((text) => !comment.includes(text))
      .map((text) => `${name} is ${state}, and its comment does not say ${text}: ${comment.slice(0, 1_000)}`);
  });
}

const mention = /^<!-- towline: rollout of [0-9a-f]+ failed -->/;

/** How many of the expected texts name the head and the base; the rest list what merging would change. */
const aboutHeadAndBase = 2;

function openChecks(_: History, { pullRequests }: Rest): string[] {
  return pullRequests
    .filter(({ state, check }) => state === "open" && (check === undefined || check === "pending"))
    .map(({ name, check }) => `the check of ${name} is ${check ?? "missing"}`);
}

function waitsForOther(history: History, { dependsOn }: DeploymentFacts): boolean {
  if (dependsOn === undefined) return false;
  const other = present(history).find(({ deployment }) => deployment === dependsOn);
  return other?.status.ready?.status !== "True" || other.spec.suspend;
}
