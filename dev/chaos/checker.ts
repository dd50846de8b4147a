/** The invariants of an episode. Pure: reads the history and the final state, and reports each violation. */
import type { DeploymentFacts, Expected, History, ObjectWrite, Push, Rest, Run, StatusWrite } from "./history.ts";

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
  { name: "each deployment is ready at its head, or says why not", check: unready },
  { name: "what is ready is what its head renders", check: otherContent },
  { name: "what people changed is reported as drift", check: untoldDrift },
  { name: "the queue is empty", check: (_, { queued }) => queued.map((job) => `${job} is there still`) },
  { name: "no job was given up", check: (_, { failed }) => failed },
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

function unfencedWrites({ runs, objects, leases }: History): string[] {
  const byId = new Map(runs.map((run) => [run.id, run]));
  return objects.flatMap(({ name, run: id, version, deleted }) => {
    const run = byId.get(id ?? "");
    if (run?.holder === undefined || deleted) return [];
    const held = leases.findLast((lease) => lease.deployment === run.deployment && lease.version < version);
    if (held === undefined || (held.holder === run.holder && held.holder !== "")) return [];
    const whose = held.holder === "" ? "nobody" : held.holder;
    return [
      `${describe(run)} wrote ${name} under the Lease of ${whose}; it began under that of ${run.holder || "nobody"}`,
    ];
  });
}

/** Resetting the branch to an earlier commit is a new push: that commit counts as the newest from then on. */
function goingBack({ runs, deployments, pushes }: History): string[] {
  return deployments.flatMap(({ name, repo }) => {
    const theirs = pushes.filter((push) => push.repo === repo);
    let newest: { readonly index: number; readonly run: Run } | undefined;
    return runs
      .filter((run) => run.deployment === name && run.command === "deploy" && run.mutating && run.wrote > 0)
      .flatMap((run) => {
        const index = pushIndex(theirs, run);
        const before = newest;
        if (before === undefined || index >= before.index) newest = { index, run };
        return before !== undefined && index < before.index && index !== -1
          ? [`${describe(run)} is of an older push than ${describe(before.run)}`]
          : [];
      });
  });
}

/** Index of the last push of the run's commit before the run started; -1 if there is none. */
function pushIndex(pushes: readonly Push[], { commit, startedAt }: Run): number {
  return pushes.findLastIndex((push) => push.commit === commit && push.at <= startedAt);
}

function repeats({ runs, deployments, statuses, objects }: History): string[] {
  return deployments.flatMap(({ name }) => {
    const deploys = runs.filter((run) => run.deployment === name && run.command === "deploy" && run.mutating);
    const theirs = statuses.filter((status) => status.deployment === name);
    return deploys.flatMap((run, i) => {
      const first = deploys[i - 1];
      if (first?.exitCode !== 0 || run.exitCode !== 0) return [];
      if (first.commit !== run.commit || first.hash !== run.hash) return [];
      const between = theirs.filter(({ at }) => at >= (first.endedAt ?? first.startedAt) && at <= run.startedAt);
      const recorded = between.find(({ status }) => isRecorded(status) && status.observedCommit === first.commit);
      const isAskedFor = between.some((one, k) => one.requested || isOther(one, between[k - 1] ?? recorded));
      const touched = objects.some(
        ({ run: by, at }) => by === "person" && at >= first.startedAt && at <= run.startedAt,
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
function wronglyReady({ statuses, objects, rendered }: History): string[] {
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
      if (isRight || write?.run === "person") continue;
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

function unready(history: History, { expected }: Rest): string[] {
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec, generation } = seen;
    const facts = factsOf(history, name);
    if (facts === undefined || spec.suspend || isRefused(history, seen) || waitsForOther(history, facts)) return [];
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

/**
 * The commits a deployment may rest at: the branch's head; without sweeps, also older ones back to the last push that
 * changed a file in its directory.
 */
function headsOf({ pushes, sweeps }: History, { repo, path }: DeploymentFacts): (string | undefined)[] {
  const theirs = pushes.filter((push) => push.repo === repo);
  const concerns = ({ paths }: Push) => paths.length === 0 || paths.some((one) => one.startsWith(`${path}/`));
  const first = sweeps ? theirs.length - 1 : theirs.findLastIndex(concerns);
  return theirs.slice(Math.max(0, first)).map(({ commit }) => commit);
}

function otherContent(history: History, { expected }: Rest): string[] {
  const live = lastWrites(history);
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec } = seen;
    const wanted: Expected | undefined = expected.get(name);
    if (wanted === undefined || spec.suspend || status.ready?.status !== "True" || waitsForApproval(seen)) return [];
    if ("error" in wanted) return [`${name} is ready, though its head cannot be rendered: ${wanted.error}`];
    return [...wanted.objects].flatMap(([object, data]) => {
      const write = live.get(object);
      if (write?.run === "person") return []; // drift is reported, not deployed
      const found = write === undefined || write.deleted ? "gone" : JSON.stringify(write.data);
      const right = JSON.stringify(data);
      return found === right
        ? []
        : [`${name} is ready at ${status.observedCommit}, and ${object} is ${found} instead of ${right}`];
    });
  });
}

function untoldDrift(history: History, { expected }: Rest): string[] {
  const live = lastWrites(history);
  return present(history).flatMap((seen) => {
    const { deployment: name, status, spec } = seen;
    const wanted = expected.get(name);
    if (wanted === undefined || "error" in wanted || spec.suspend || status.ready?.status !== "True") return [];
    if (factsOf(history, name)?.often !== true || waitsForApproval(seen) || status.drift !== "no drift") return [];
    return [...wanted.objects].flatMap(([object, data]) => {
      const write = live.get(object);
      const differs = write !== undefined && (write.deleted || JSON.stringify(write.data) !== JSON.stringify(data));
      return differs && write.run === "person" ? [`${name} reports no drift, and somebody changed ${object}`] : [];
    });
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

/** Another deployment with the same discriminator was deployed first. */
function isRefused(history: History, { deployment, status }: StatusWrite): boolean {
  const group = factsOf(history, deployment)?.group;
  if (group === undefined || !status.ready?.message.includes("discriminator")) return false;
  return present(history).some(
    (other) => other.deployment !== deployment && factsOf(history, other.deployment)?.group === group,
  );
}

function waitsForOther(history: History, { dependsOn }: DeploymentFacts): boolean {
  if (dependsOn === undefined) return false;
  const other = present(history).find(({ deployment }) => deployment === dependsOn);
  return other?.status.ready?.status !== "True" || other.spec.suspend;
}

function waitsForApproval({ spec, status }: StatusWrite): boolean {
  return spec.manual && (status.lastObjectsHash === undefined || spec.manualObjectsHash !== status.lastObjectsHash);
}

function factsOf({ deployments }: History, name: string): DeploymentFacts | undefined {
  return deployments.find((one) => one.name === name);
}

/** The last status of each deployment that still exists. */
function present({ statuses }: History): StatusWrite[] {
  const last = new Map(statuses.map((status) => [status.deployment, status]));
  return [...last.values()].filter(({ deleted }) => !deleted);
}

function lastWrites({ objects }: History) {
  return new Map(objects.map((write) => [write.name, write]));
}

function describe({ id, command, deployment, commit, replica, startedAt }: Run): string {
  return `${command} ${id} of ${deployment} at ${commit.slice(0, 7)} by ${replica} (${time(startedAt)})`;
}

function time(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}
