/** What is worth a notification, as the deployments' statuses tell it at this moment. Pure. */
import { compareText } from "../../kit/compare-text.ts";
import { timeOf } from "../../kit/time.ts";
import { hashToConfirm } from "../../guards/pruning.ts";
import { deployedCommitOf, wasDryRun } from "../../model/last-deploy.ts";
import {
  type AnyDeployment,
  type CommandSummary,
  type Deployment,
  isMalformed,
  keyText,
  kindOf,
  type NoticeEvent,
  type NoticeKind,
  type NoticeLine,
  type RepoId,
} from "../../model.ts";
import { changeWaits } from "../../reconcile/decide.ts";
import { dueAt } from "../../reconcile/due.ts";
import { isReconciling, readyCondition, reason } from "../../reconcile/status/conditions.ts";
import { inOneLine, withFirstErrorOnly } from "../../reconcile/status/first-error.ts";
import { longDrift } from "../../views/drift-text.ts";
import type { Subscription } from "./routing.ts";

/** Something that is true now. */
export interface Notice {
  /** What it is about: the same text while that is the same. */
  readonly subject: string;
  readonly kind: NoticeKind;
  readonly state: "progress" | "succeeded" | "failed" | "open";
  /**
   * Whether nothing that it is about is in progress. While a deployment is reconciled, its status does not say whether
   * it still waits: such a notice is `progress` or not settled.
   */
  readonly settled: boolean;
  /** The events that select it, of all deployments that it is about. */
  readonly events: ReadonlySet<NoticeEvent>;
  /** `shop`, for the beginning of the title. */
  readonly about: string;
  readonly repo?: RepoId | undefined;
  readonly commit?: string | undefined;
  /** What needs somebody first. */
  readonly lines: readonly NoticeLine[];
  /** Deployments without a line, because nothing changed in them. */
  readonly unchanged: number;
  readonly deployments: readonly AnyDeployment[];
  /** When the first and the last deployment came to the state that is reported, in epoch milliseconds; 0: unknown. */
  readonly firstAt: number;
  readonly lastAt: number;
  /** When the last of the deploys ended that went well, in epoch milliseconds; 0: none did. */
  readonly deployedAt: number;
  readonly url?: string | undefined;
}

/** Checks are late when the machine is busy, or after an outage that other alerts report. */
const [overdueIntervals, overdueAtLeastMs] = [2, 10 * 60_000];

export function noticesOf(subscriptions: readonly Subscription[], now: number): Notice[] {
  return [
    ...deployNotices(subscriptions, now),
    ...stateNotices("drift", subscriptions, ({ status }) => driftOf(status)),
    ...stateNotices("approval", subscriptions, ({ spec, status }) =>
      !spec.suspend && changeWaits(spec, status)
        ? "approve it on the page, by kluctl gitops deploy, or in spec.manualObjectsHash"
        : undefined,
    ),
    ...stateNotices("prune", subscriptions, ({ status }) => {
      const hash = hashToConfirm(readyCondition(status)?.message ?? "");
      return hash && `confirm it by the annotation towline.dev/confirm-prune=${hash}`;
    }),
    ...stateNotices("overdue", subscriptions, (deployment) =>
      isOverdue(deployment, now) ? "was not checked for longer than its interval" : undefined,
    ),
  ];
}

const deployEvents: readonly NoticeEvent[] = ["started", "succeeded", "failed", "recovered"];

/** One for each commit, over all deployments that have it. */
function deployNotices(subscriptions: readonly Subscription[], now: number): Notice[] {
  const concerned = subscriptions.filter(({ events }) => deployEvents.some((event) => events.has(event)));
  const groups = Map.groupBy(concerned, ({ deployment }) => subjectOfDeploy(deployment));
  return [...groups].flatMap(([subject, members]): Notice[] => {
    const described = members.map(({ deployment }) => ({ deployment, line: lineOf(deployment) }));
    const lines = described.flatMap(({ line }) => line ?? []).toSorted(byNeed);
    const has = (state: NoticeLine["state"]) => lines.some((line) => line.state === state);
    const state = has("failed") ? "failed" : has("progress") ? "progress" : has("succeeded") ? "succeeded" : undefined;
    if (state === undefined) return [];
    const [first] = members.map(({ deployment }) => deployment);
    return [
      {
        ...{ subject, kind: "deploy", state, lines, settled: !has("progress") },
        events: eventsOf(members),
        about: first ? aboutOf(first) : "",
        repo: first && repoOf(first),
        commit: first && !isMalformed(first) ? first.status.observedCommit : undefined,
        unchanged: described.filter(({ line }) => line === undefined).length,
        deployments: inOrderOf(lines, members),
        ...timesOf(
          described.flatMap(({ deployment, line }) => (line?.state === state ? readyAt(deployment) : [])),
          now,
        ),
        deployedAt: Math.max(
          0,
          ...described.flatMap(({ deployment, line }) => (line?.state === "succeeded" ? deployedAt(deployment) : [])),
        ),
      },
    ];
  });
}

/** A time in the future was written by somebody else, or by a clock that is ahead. */
function timesOf(times: readonly number[], now: number): Pick<Notice, "firstAt" | "lastAt"> {
  const past = times.filter((at) => at <= now);
  return past.length === 0 ? { firstAt: 0, lastAt: 0 } : { firstAt: Math.min(...past), lastAt: Math.max(...past) };
}

function deployedAt({ status }: AnyDeployment): number {
  return timeOf(status.lastDeployResult?.endTime ?? "");
}

function readyAt({ status }: AnyDeployment): number {
  return timeOf(readyCondition(status)?.lastTransitionTime ?? "");
}

function subjectOfDeploy(deployment: AnyDeployment): string {
  if (isMalformed(deployment)) return `spec ${keyText(deployment.key)}`;
  const { spec, repo, status } = deployment;
  return `commit ${repo ?? spec.source.url} ${status.observedCommit ?? keyText(deployment.key)}`;
}

/** What became of its commit; `undefined` if nothing changed, or nothing is known yet. */
function lineOf(deployment: AnyDeployment): NoticeLine | undefined {
  const name = keyText(deployment.key);
  const { status } = deployment;
  const ready = readyCondition(status);
  if (deployment.deletionTimestamp !== undefined) return undefined;
  if (isMalformed(deployment)) return { name, state: "failed", text: inOneLine(deployment.problem) };
  const { spec, generation } = deployment;
  const { lastDeployResult: last, observedCommit: commit } = status;
  // A check reports progress too, but only what may change the cluster changes Ready.
  const isWorking = isReconciling(status) && ready?.status === "Unknown" && ready.reason === reason.progressing;
  if (isWorking) return { name, state: "progress", text: "" };
  if (spec.suspend || (status.observedGeneration !== generation && last === undefined)) return undefined;
  if (status.lastPrepareError !== undefined)
    return { name, state: "failed", text: `cannot be rendered: ${inOneLine(status.lastPrepareError)}` };
  if (last === undefined) return undefined;
  const hasFailed = last.errors > 0 && deployedCommitOf(last) === commit;
  if (changeWaits(spec, status) && !hasFailed) return { name, state: "waiting", text: "" };
  if (ready?.status === "False") return { name, state: "failed", text: withFirstErrorOnly(ready.message, status) };
  if (ready?.status !== "True" || deployedCommitOf(last) !== commit || wasDryRun(last)) return undefined;
  const changes = changesOf(last);
  return changes === "" ? undefined : { name, state: "succeeded", text: changes };
}

function changesOf(last: CommandSummary): string {
  const counts: [number, string][] = [
    [last.newObjects, "new"],
    [last.changedObjects, "changed"],
    [last.deletedObjects, "deleted"],
    [last.appliedHookObjects, "hooks run"],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count} ${what}`)
    .join(", ");
}

const lineState = { drift: "warning", approval: "waiting", prune: "waiting", overdue: "warning" } as const;

/** One for each repository, over all its deployments that are in such a state. */
function stateNotices(
  kind: "drift" | "approval" | "prune" | "overdue",
  subscriptions: readonly Subscription[],
  describe: (deployment: Deployment) => string | undefined,
): Notice[] {
  const found = subscriptions.flatMap(({ deployment, events }) => {
    if (!events.has(kind) || isMalformed(deployment) || deployment.deletionTimestamp !== undefined) return [];
    const text = describe(deployment);
    return text || isReconciling(deployment.status) ? [{ deployment, events, text }] : [];
  });
  const groups = Map.groupBy(found, ({ deployment }) => repoOf(deployment) ?? deployment.spec.source.url);
  return [...groups].map(([source, members]) => {
    const lines = members
      .flatMap(({ deployment, text }): NoticeLine[] =>
        text ? [{ name: keyText(deployment.key), state: lineState[kind], text }] : [],
      )
      .toSorted(byNeed);
    return {
      ...{ subject: `${kind} ${source}`, kind, state: lines.length > 0 ? "open" : "progress", lines, unchanged: 0 },
      settled: members.every(({ deployment }) => !isReconciling(deployment.status)),
      events: eventsOf(members),
      about: lastSegment(source),
      repo: members[0] && repoOf(members[0].deployment),
      deployments: inOrderOf(lines, members),
      ...{ firstAt: 0, lastAt: 0, deployedAt: 0 },
    };
  });
}

/** While a check runs, what the last one found counts. */
function driftOf({ lastDriftDetectionResultMessage: message, lastDriftDetectionResult }: Deployment["status"]) {
  const objects = lastDriftDetectionResult?.document["objects"];
  if (message === undefined || message === "no drift" || !Array.isArray(objects) || objects.length === 0)
    return undefined;
  return longDrift(message);
}

function isOverdue(deployment: Deployment, now: number): boolean {
  const { spec, status } = deployment;
  // One that cannot be rendered has no time of its last check in its status.
  if (spec.suspend || status.lastPrepareError !== undefined || status.lastDeployResult === undefined) return false;
  const lateMs = Math.max(overdueIntervals * spec.intervalMs, overdueAtLeastMs);
  return dueAt(deployment, { retryAt: Infinity }, now) + lateMs < now;
}

const need: Readonly<Record<NoticeLine["state"], number>> = {
  failed: 0,
  warning: 1,
  waiting: 2,
  progress: 3,
  succeeded: 4,
};

function byNeed(a: NoticeLine, b: NoticeLine): number {
  return need[a.state] - need[b.state] || compareText(a.name, b.name);
}

function eventsOf(members: readonly { readonly events: ReadonlySet<NoticeEvent> }[]): ReadonlySet<NoticeEvent> {
  return new Set(members.flatMap(({ events }) => [...events]));
}

function inOrderOf(lines: readonly NoticeLine[], members: readonly { readonly deployment: AnyDeployment }[]) {
  const byName = new Map(members.map(({ deployment }) => [keyText(deployment.key), deployment]));
  return lines.flatMap(({ name }) => byName.get(name) ?? []);
}

function aboutOf(deployment: AnyDeployment): string {
  if (isMalformed(deployment)) return keyText(deployment.key);
  return lastSegment(deployment.repo ?? deployment.spec.source.url);
}

function repoOf(deployment: AnyDeployment): RepoId | undefined {
  return isMalformed(deployment) ? undefined : deployment.repo;
}

/** `git.example.com/acme/shop.git` → `shop` */
function lastSegment(source: string): string {
  return (
    source
      .replace(/\/+$/, "")
      .split("/")
      .at(-1)
      ?.replace(/\.git$/, "") || source
  );
}

/** How the notification refers to the deployment that it is about first. */
export function objectOf(deployment: AnyDeployment | undefined) {
  return deployment && { ...kindOf(deployment), ...deployment.key, uid: deployment.uid };
}
