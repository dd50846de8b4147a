/** What is worth a notification, as the deployments' statuses tell it at this moment. Pure. */
import { compareText } from "../../kit/compare-text.ts";
import { hashToConfirm } from "../../guards/pruning.ts";
import {
  type AnyDeployment,
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
import { isReconciling, readyCondition } from "../../reconcile/status/conditions.ts";
import { longDrift } from "../../views/drift-text.ts";
import { type Member, memberOf } from "./members.ts";
import type { Subscription } from "./routing.ts";

/** Something that is true now. */
export interface Notice {
  /** What it is about: the same text while that is the same. */
  readonly subject: string;
  readonly kind: NoticeKind;
  readonly state: "progress" | "succeeded" | "failed" | "open" | "over";
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
  /** For a commit: what became of it in each deployment; empty for others. */
  readonly members: readonly Member[];
  readonly url?: string | undefined;
}

/** Checks are late when the machine is busy, or after an outage that other alerts report. */
const [overdueIntervals, overdueAtLeastMs] = [2, 10 * 60_000];

/** `bySource`: see `deployNotices`. */
export function noticesOf(subscriptions: readonly Subscription[], now: number, bySource = false): Notice[] {
  return [
    ...deployNotices(subscriptions, now, bySource),
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

/**
 * One for each commit, over all deployments that have it; or, for a target that has to know what is wrong and not which
 * commit was sent, one for each source.
 */
function deployNotices(subscriptions: readonly Subscription[], now: number, bySource: boolean): Notice[] {
  const concerned = subscriptions.filter(({ events }) => deployEvents.some((event) => events.has(event)));
  const groups = Map.groupBy(concerned, ({ deployment }) => subjectOfDeploy(deployment, bySource));
  return [...groups].map(([subject, theirs]): Notice => {
    const members = theirs.map(({ deployment }) => memberOf(deployment, now));
    const lines = members.flatMap(toLine).toSorted(byNeed);
    const about = inOrderOf(lines, theirs);
    const [first] = about.length > 0 ? about : theirs.map(({ deployment }) => deployment);
    return {
      ...{ subject, kind: "deploy", state: "progress", lines, members },
      settled: members.every(({ state }) => state !== "progress" && state !== "unknown"),
      events: eventsOf(theirs),
      about: first ? aboutOf(first) : "",
      repo: first && repoOf(first),
      commit: first && !isMalformed(first) ? first.status.observedCommit : undefined,
      unchanged: members.length - lines.length,
      deployments: about,
    };
  });
}

function toLine({ name, state, text }: Member): NoticeLine[] {
  return state === "healthy" || state === "unknown" ? [] : [{ name, state, text }];
}

function subjectOfDeploy(deployment: AnyDeployment, bySource: boolean): string {
  if (isMalformed(deployment)) return `spec ${keyText(deployment.key)}`;
  const { spec, repo, status } = deployment;
  const source = repo ?? spec.source.url;
  return bySource ? `source ${source}` : `commit ${source} ${status.observedCommit ?? keyText(deployment.key)}`;
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
      settled: members.every(({ deployment, text }) => !text || !isReconciling(deployment.status)),
      events: eventsOf(members),
      about: lastSegment(source),
      repo: members[0] && repoOf(members[0].deployment),
      deployments: inOrderOf(lines, members),
      members: [],
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
