/**
 * Describes the result of a preview in a few words for a commit status. The texts consist only of fixed words and
 * numbers, so they are safe wherever they are shown.
 */
import type { Preview, Report } from "../model/report.ts";
import { cut } from "./visible-text.ts";

/** `1 object`, `1 200 objects`. */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : nouns}`;
}

/** Groups thousands, so that long numbers are readable. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, "\u00a0");
}

/** How many objects merging would touch, and how many kluctl could not compare. */
export type Changes = Pick<Preview["counts"], "changed" | "new" | "deleted" | "orphan" | "errors">;

/** `5 changed, 1 new`; `""` if there is nothing. */
export function describeChanges(changes: Changes): string {
  return changedParts(changes, false).join(", ");
}

/** The same with the noun, for use without context: `5 objects changed, 1 new`. */
export function describeChangedObjects(changes: Changes): string {
  return changedParts(changes, true).join(", ");
}

function changedParts({ changed, new: added, deleted, orphan, errors }: Changes, named: boolean): string[] {
  const parts: string[] = [];
  const add = (count: number, before: string, after: string) => {
    const what = named && parts.length === 0 ? (count === 1 ? "object" : "objects") : "";
    if (count > 0) parts.push([grouped(count), before, what, after].filter((word) => word !== "").join(" "));
  };
  add(changed, "", "changed");
  add(added, "new", "");
  add(deleted, "", "deleted");
  add(orphan, "orphan", "");
  if (errors > 0) parts.push(plural(errors, "error"));
  return parts;
}

export function isChanged({ state, counts }: Preview): boolean {
  return state === "done" && counts.changed + counts.new + counts.deleted + counts.orphan > 0;
}

/** Describes a preview that failed. */
export function describeFailure({ failed }: Preview): string {
  return failed === "run" ? "could not be compared" : "cannot be rendered";
}

/** Describes the preview of one deployment: `5 changed, 1 deleted`, `no change`, `cannot be rendered`. */
export function describePreview(preview: Preview): string {
  switch (preview.state) {
    case "working":
      return preview.isolated ? "comparing with the base branch" : "comparing with the live cluster";
    case "failed":
      return describeFailure(preview);
    case "done":
      return [describeChanges(preview.counts) || describeNoChange(preview), ...describeState(preview)].join("; ");
  }
}

/** Describes a preview in which nothing counts. */
export function describeNoChange({ noise }: Preview): string {
  return noise === undefined ? "no change" : "only noise";
}

/** Describes what a merge into the deployment waits for, beside its effect. */
export function describeState(preview: Preview): string[] {
  return [
    preview.isolated && "rendered without the cluster",
    preview.suspended && "suspended",
    preview.approval === "pending" && "waiting for approval",
    preview.approval === "after-merge" && (isChanged(preview) || preview.noise) && "will need approval",
    preview.pruneWaits && "its prune will need confirmation",
  ].filter((part) => typeof part === "string");
}

/** Whether all previews were rendered without the cluster. */
export function areIsolated(previews: readonly Preview[]): boolean {
  return previews.length > 0 && previews.every(({ isolated }) => isolated);
}

/** The totals of a report. */
export interface Totals {
  readonly deployments: number;
  readonly changed: number;
  readonly working: number;
  readonly failed: number;
  /** The failed previews for which no rendering error is known. */
  readonly notRun: number;
  /** The compared deployments with errors. */
  readonly erring: number;
  readonly changes: Changes;
}

export function totalsOf(previews: readonly Preview[]): Totals {
  const sum = (field: keyof Changes) => previews.reduce((total, { counts }) => total + counts[field], 0);
  return {
    deployments: previews.length,
    changed: previews.filter(isChanged).length,
    working: previews.filter(({ state }) => state === "working").length,
    failed: previews.filter(({ state }) => state === "failed").length,
    notRun: previews.filter(({ state, failed }) => state === "failed" && failed === "run").length,
    erring: previews.filter(({ state, counts }) => state === "done" && counts.errors > 0).length,
    changes: {
      changed: sum("changed"),
      new: sum("new"),
      deleted: sum("deleted"),
      orphan: sum("orphan"),
      errors: sum("errors"),
    },
  };
}

/** `1 deployment`, `1 of 3 deployments`. */
function share(some: number, all: number): string {
  return some === all ? plural(all, "deployment") : `${grouped(some)} of ${plural(all, "deployment")}`;
}

/** GitHub's limit for the description of a status. */
const longestVerdict = 140;

/** Describes the whole pull request in at most 140 characters. */
export function describeReport(report: Pick<Report, "state" | "obstacle" | "previews" | "unshown">): string {
  if (report.state === "merged") return "merged";
  if (report.state === "closed") return "closed without merging";
  if (report.obstacle !== undefined) return describeObstacle(report.obstacle);
  const { deployments, working } = totalsOf(report.previews);
  if (deployments === 0 && report.state === "working") return "looking for deployments";
  if (deployments === 0) return report.unshown?.length ? "no deployment can be compared" : "no deployment is affected";
  if (working > 0 || report.state === "working") return `comparing ${share(working || deployments, deployments)}`;
  const problems = describeProblems(report.previews);
  const effect = effectOf(report.previews);
  const isUncertain = effect?.suspended || problems.failing !== "";
  const merging = effect
    ? `${isUncertain ? "would change" : "changes"} ${effect.where}`
    : problems.deployments === 0 && describeNoEffect(report.previews);
  const verdict = [problems.failing && `would fail: ${problems.failing}`, problems.others, problems.unknown, merging]
    .filter(Boolean)
    .join("; ");
  const found = effect ? describeChangedObjects(effect.changes) : "";
  const more = effect?.others ? `; ${plural(effect.others.changed, "suspended deployment")} would change` : "";
  const how = areIsolated(report.previews) ? "; rendered without the cluster" : "";
  const counted = problems.deployments > 0 && `${plural(problems.deployments, "deployment")} with problems`;
  const short = [problems.failing && "would fail", counted, merging].filter(Boolean).join("; ");
  const texts = [
    `${verdict}${found && `: ${found}`}${more}${how}`,
    `${verdict}${more}${how}`,
    `${verdict}${how}`,
    `${short}${how}`,
  ];
  return texts.find(({ length }) => length <= longestVerdict) ?? cut(short, longestVerdict);
}

/** The effect of a merge. */
export interface Effect {
  /** Whether all changed deployments are suspended, so that nothing is deployed until they are resumed. */
  readonly suspended: boolean;
  readonly where: string;
  /** The number of changed deployments, and of those with deletions. */
  readonly changed: number;
  readonly deleting: number;
  /** Without errors, see Problems. */
  readonly changes: Changes;
  /** The changed deployments that are suspended, beside those that are not. */
  readonly others?: Totals | undefined;
}

/** `undefined` if there is no change. */
export function effectOf(previews: readonly Preview[]): Effect | undefined {
  const totals = totalsOf(previews);
  if (totals.changed === 0) return undefined;
  const deleting = previews.filter((preview) => isChanged(preview) && preview.counts.deleted > 0);
  const following = totalsOf(previews.filter(({ suspended }) => !suspended));
  if (following.changed === 0) {
    const where = plural(totals.changed, "suspended deployment");
    const changes = { ...totals.changes, errors: 0 };
    return { suspended: true, where, changed: totals.changed, deleting: deleting.length, changes };
  }
  const others = totalsOf(previews.filter(({ suspended }) => suspended));
  return {
    suspended: false,
    where: share(following.changed, totals.deployments),
    changed: following.changed,
    deleting: deleting.filter(({ suspended }) => !suspended).length,
    changes: { ...following.changes, errors: 0 },
    others: others.changed > 0 ? others : undefined,
  };
}

/** What keeps a merge from being deployed or from being compared, in words; each `""` if there is nothing. */
interface Problems {
  /** The deploys that would fail: `1 of 3 deployments cannot be rendered, 1 other has 2 errors`. */
  readonly failing: string;
  /** The same for deployments that a merge does not deploy, or of which the preview knows too little. */
  readonly others: string;
  /** `1 of 3 deployments could not be compared` */
  readonly unknown: string;
  /** The number of all of them. */
  readonly deployments: number;
}

export function describeProblems(previews: readonly Preview[]): Problems {
  const all = previews.length;
  const failing = describeBroken(totalsOf(previews.filter(isCertain)), (count) => share(count, all));
  const rest = (count: number) => (failing === "" ? share(count, all) : plural(count, "other"));
  const others = describeBroken(totalsOf(previews.filter((preview) => !isCertain(preview))), rest);
  const { failed, notRun, erring } = totalsOf(previews);
  const which = failing + others === "" ? share(notRun, all) : plural(notRun, "other");
  const unknown = notRun === 0 ? "" : `${which} could not be compared`;
  return { failing, others, unknown, deployments: failed + erring };
}

/** Whether an error means that the deploy fails: not with placeholders for what is encrypted, and not without the cluster. */
function isCertain({ suspended, isolated, encrypted }: Preview): boolean {
  return !suspended && !isolated && encrypted === undefined;
}

function describeBroken({ failed, notRun, erring, changes }: Totals, which: (count: number) => string): string {
  const unrendered = failed - notRun;
  const others = unrendered > 0 ? plural(erring, "other") : which(erring);
  return [
    unrendered > 0 && `${which(unrendered)} cannot be rendered`,
    erring > 0 && `${others} ${erring === 1 ? "has" : "have"} ${plural(changes.errors, "error")}`,
  ]
    .filter((part) => part !== false)
    .join(", ");
}

/** Says that no change counts: `changes nothing in 3 deployments`. */
export function describeNoEffect(previews: readonly Preview[]): string {
  const noisy = previews.filter(({ noise }) => noise !== undefined).length;
  if (noisy > 0) return `changes only what is folded as noise, in ${share(noisy, previews.length)}`;
  return `changes nothing in ${plural(previews.length, "deployment")}`;
}

function describeObstacle(obstacle: NonNullable<Report["obstacle"]>): string {
  switch (obstacle.kind) {
    case "fork":
      return obstacle.agit
        ? "not rendered: it was pushed for review, without a branch"
        : "not rendered: it comes from a fork";
    case "no-branch":
      return "not rendered: no branch of this repository points at its head";
    case "conflict":
      return `cannot be merged: conflict${obstacle.paths.length > 0 ? ` in ${plural(obstacle.paths.length, "file")}` : ""}`;
    case "failed":
      return "could not try the merge";
  }
}
