/** Decides what a git host should show of the environments of one repository. Pure. */
import { compareText } from "../../kit/compare-text.ts";
import { deployedCommitOf, wasDryRun } from "../../model/last-deploy.ts";
import { type GitDeployment, type HostDeployment, keyText, type PostedDeployment } from "../../model.ts";
import { changeWaits, isInterrupted } from "../../reconcile/decide.ts";
import { isAwaitingHealth, isReconciling, readyCondition } from "../../reconcile/status/conditions.ts";
import { inOneLine, withFirstErrorOnly } from "../../reconcile/status/first-error.ts";
import type { Follower } from "../deploy-statuses.ts";
import { environmentOf, type HostEnvironment, toName } from "./environment.ts";

/**
 * With more environments than this, a repository gets a single one. One deployment to one environment takes five requests,
 * four of them writes, and GitHub accepts about 80 writes a minute from one login (its secondary limit).
 */
const mostEnvironments = 10;

export interface EnvironmentsInput {
  /** The commit whose deployments have changed. */
  readonly commit: string;
  /** All deployments that follow the repository. */
  readonly followers: readonly Follower[];
  /** What was written for the repository, by environment and ref. */
  readonly posted: readonly PostedDeployment[];
  /** The server's `statusName`. */
  readonly task: string;
}

/** One write to the host, and what is recorded of it. */
export interface EnvironmentStep {
  readonly commit: string;
  /** The host's id, if it is known. */
  readonly id?: string | undefined;
  readonly deployment: HostDeployment;
  /** `id`: the one that the host returned. */
  readonly toRecord: (id: string | undefined) => PostedDeployment;
}

type About = Pick<HostEnvironment, "url" | "servedUrl" | "tier">;

interface Group extends Pick<About, "url" | "tier"> {
  readonly environment: string;
  readonly ref: string;
  readonly members: readonly Follower[];
}

/**
 * At most one step for each environment: after it was taken and recorded, the next call returns the one that follows. Empty
 * once the host shows everything.
 */
export function nextSteps({ commit, followers, posted, task }: EnvironmentsInput): EnvironmentStep[] {
  const own = posted.filter((one) => one.task === task);
  const known = new Map(own.map((one) => [idOf(one), one]));
  const groups = groupsOf(followers, task);
  const steps = groups.flatMap((group) => stepOf(group, commit, known.get(idOf(group)), task) ?? []);
  // Without the name of a default branch it is unknown to which environment its deployments belong.
  if (followers.some(({ ref }) => ref === undefined)) return steps;
  const present = new Set(groups.map(idOf));
  return [...steps, ...own.filter((one) => !present.has(idOf(one))).flatMap(leave)];
}

/** Deployments of different branches in one environment are independent of each other. */
function idOf({ environment, ref }: Pick<Group, "environment" | "ref">): string {
  return JSON.stringify([environment, ref]);
}

interface Member extends Pick<Group, "environment" | "ref"> {
  readonly follower: Follower;
  readonly about: About;
}

function groupsOf(followers: readonly Follower[], task: string): Group[] {
  const members = followers
    .toSorted((a, b) => compareText(keyText(a.deployment.key), keyText(b.deployment.key)))
    .flatMap((follower) => toMember(follower, task) ?? []);
  const areMany = new Set(members.map(({ environment }) => environment)).size > mostEnvironments;
  const named = areMany ? members.map((one) => ({ ...one, environment: toName(task), about: {} })) : members;
  const grouped = [...Map.groupBy<string, Member>(named, idOf).values()];
  return grouped.map((all) => ({
    environment: all[0]?.environment ?? "",
    ref: all[0]?.ref ?? "",
    url: firstOf(all, "url") ?? firstOf(all, "servedUrl"),
    tier: firstOf(all, "tier"),
    members: all.map(({ follower }) => follower),
  }));
}

function firstOf<K extends keyof About>(members: readonly Member[], field: K): About[K] {
  return members.find(({ about }) => about[field] !== undefined)?.about[field];
}

function toMember(follower: Follower, task: string): Member | undefined {
  const { ref, deployment } = follower;
  const { name: environment, ...about } = environmentOf(deployment, task);
  if (environment === undefined || ref === undefined) return undefined;
  return { environment, ref, follower, about };
}

function stepOf(
  group: Group,
  commit: string,
  known: PostedDeployment | undefined,
  task: string,
): EnvironmentStep | undefined {
  const { environment, ref, url, tier } = group;
  const about = { environment, ref, url, tier, task };
  const parts = group.members.flatMap((member) => partOf(member, commit) ?? []);
  const line = lineOf(parts);
  // What has ended on the host stays ended: the host gets another deployment, also of the same commit.
  if (known?.commit !== commit || !(isOpen(known) || isFinal(known))) {
    if (line === undefined || !isCurrent(group, commit)) return undefined;
    if (known !== undefined && isOpen(known)) return cancel(known, supersededText);
    const live = known?.state === "success" ? { commit: known.commit, id: known.id } : known?.live;
    return write(commit, { ...about, ...line }, undefined, live);
  }
  if (known.state === "success" && known.live !== undefined) return replaceLive(known);
  if (line === undefined) {
    if (!isOpen(known) || parts.length > 0) return undefined;
    const isThere = group.members.some(({ deployment }) => deployment.status.observedCommit === commit);
    return cancel(known, isThere ? "nothing is deployed" : supersededText);
  }
  // What is redone for the same commit, to correct drift or to retry, does not take its result back until there is another.
  const wanted = { ...about, ...(isOpen(line) && isFinal(known) ? pick(known) : line) };
  return isSame(known, wanted) ? undefined : write(commit, wanted, known.id, known.live);
}

const supersededText = "superseded by a newer commit";

/**
 * Whether the commit is what the environment is to show now: only then a newer deployment begins. A commit that some
 * deployments have yet to leave is not.
 */
function isCurrent({ members }: Group, commit: string): boolean {
  const at = members.filter(({ deployment }) => deployment.status.observedCommit === commit);
  const isHead = at.some(({ head }) => head === commit);
  const isUnknown = members.every(({ head }) => head === undefined);
  return isHead || (isUnknown && at.length === members.length);
}

type Line = Pick<HostDeployment, "state" | "description">;

interface Part {
  readonly name: string;
  /** `expected`: it may deploy something, or find that there is nothing to deploy. `checking`: deployed, not healthy yet. */
  readonly kind: "expected" | "deploying" | "checking" | "waiting" | "failed" | "deployed";
  readonly error?: string | undefined;
}

/** `undefined` if the commit has nothing to do with the deployment, or changes nothing in it. */
function partOf({ deployment, head }: Follower, commit: string): Part | undefined {
  const { key, spec, status } = deployment;
  const part = (kind: Part["kind"], error?: string): Part => ({ name: keyText(key), kind, error });
  if (spec.dryRun) return undefined;
  if (status.observedCommit !== commit) return head === commit && !spec.suspend ? part("expected") : undefined;
  // A deploy is preceded by a record that the applied state is unknown.
  if (isReconciling(status)) return part(status.lastObjectsHash === undefined ? "deploying" : "expected");
  if (status.lastPrepareError !== undefined) {
    return part("failed", `cannot be rendered: ${inOneLine(status.lastPrepareError)}`);
  }
  const { lastDeployResult: last } = status;
  const isDeployed = last !== undefined && deployedCommitOf(last) === commit && !wasDryRun(last);
  if (changeWaits(spec, status) && !(isDeployed && last.errors > 0)) return part("waiting");
  // Without a result, a failure is one of deploying this commit only if it left the applied state unknown.
  if (!isDeployed && last !== undefined && !isInterrupted(status)) return undefined;
  if (isAwaitingHealth(status)) return part("checking");
  const ready = readyCondition(status);
  if (ready?.status === "False") return part("failed", withFirstErrorOnly(ready.message, status));
  return isDeployed ? part("deployed") : undefined;
}

/** `undefined`: nothing is deployed, as far as known. */
function lineOf(parts: readonly Part[]): Line | undefined {
  const of = (kind: Part["kind"]) => parts.filter((part) => part.kind === kind);
  const begun = parts.filter(({ kind }) => kind !== "expected");
  if (begun.length === 0) return undefined;
  if (begun.length < parts.length || of("deploying").length > 0) {
    return { state: "in_progress", description: "being deployed" };
  }
  if (of("checking").length > 0) {
    return { state: "in_progress", description: "deployed, waiting for health checks" };
  }
  const failed = of("failed");
  const [first] = failed;
  if (first !== undefined) {
    const others = parts.length === 1 ? "" : `${failed.length} of ${parts.length} deployments failed: ${first.name}: `;
    return { state: "failure", description: `${others}${first.error}` };
  }
  if (of("waiting").length > 0) return { state: "queued", description: "waiting for approval" };
  const [only] = parts;
  const what = parts.length === 1 ? only?.name : `${parts.length} deployments`;
  return { state: "success", description: `deployed: ${what}` };
}

function isOpen({ state }: Pick<HostDeployment, "state">): boolean {
  return state === "queued" || state === "in_progress";
}

function isFinal({ state }: Pick<HostDeployment, "state">): boolean {
  return state === "success" || state === "failure";
}

function pick({ state, description }: Line): Line {
  return { state, description };
}

/** The description of a state stays the first one: errors of retries differ in details. */
function isSame(known: HostDeployment, { state, url, tier }: HostDeployment): boolean {
  return known.state === state && known.url === url && known.tier === tier;
}

function write(
  commit: string,
  deployment: HostDeployment,
  id: string | undefined,
  live: PostedDeployment["live"],
): EnvironmentStep {
  const record = { ...deployment, commit, ...(live && { live }) };
  return { commit, id, deployment, toRecord: (written) => ({ ...record, id: written }) };
}

function cancel(known: PostedDeployment, description: string): EnvironmentStep {
  return write(known.commit, { ...toHost(known), state: "canceled", description }, known.id, known.live);
}

function replaceLive({ live, ...known }: PostedDeployment): EnvironmentStep | undefined {
  if (live === undefined) return undefined;
  const description = `replaced by ${known.commit.slice(0, 7)}`;
  const deployment: HostDeployment = { ...toHost(known), state: "replaced", description };
  return { commit: live.commit, id: live.id, deployment, toRecord: () => known };
}

/** No deployment belongs to the environment any more: it was deleted, or now names another environment. */
function leave(known: PostedDeployment): EnvironmentStep[] {
  if (known.live !== undefined) {
    const { live, ...rest } = known;
    const deployment: HostDeployment = { ...toHost(known), state: "replaced", description: leftText };
    return [{ commit: live.commit, id: live.id, deployment, toRecord: () => rest }];
  }
  if (isOpen(known)) return [cancel(known, leftText)];
  if (known.state !== "success") return [];
  return [write(known.commit, { ...toHost(known), state: "replaced", description: leftText }, known.id, undefined)];
}

const leftText = "no deployment belongs to this environment any more";

function toHost({ environment, state, description, ref, url, tier, task }: PostedDeployment): HostDeployment {
  return { environment, state, description, ref, url, tier, task };
}

/** What is invalid in the annotations of the deployments, each with the deployment's name. */
export function environmentProblems(deployments: readonly GitDeployment[], task: string): string[] {
  return deployments.flatMap((deployment) =>
    environmentOf(deployment, task).problems.map((problem) => `${keyText(deployment.key)}: ${problem}`),
  );
}
