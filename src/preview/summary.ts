/**
 * What a preview found, in a few plain words for a commit status. There is nothing in them but our own words and
 * numbers, so that they are safe wherever they are shown.
 */
import type { Preview, Report } from "../report.ts";

/** `1 object`, `1 200 objects`. */
export function plural(count: number, noun: string, nouns = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : nouns}`;
}

/** Thousands apart, so that long numbers can be read. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(?:\d{3})+$)/g, "\u00a0");
}

/** How many objects merging would touch, and how many kluctl could not compare. */
export type Changes = Pick<Preview["counts"], "changed" | "new" | "deleted" | "orphan" | "errors">;

/** `5 changed, 1 new`; `""` if there is nothing. */
export function describeChanges({ changed, new: added, deleted, orphan, errors }: Changes): string {
  const parts = [
    changed > 0 && `${grouped(changed)} changed`,
    added > 0 && `${grouped(added)} new`,
    deleted > 0 && `${grouped(deleted)} deleted`,
    orphan > 0 && `${grouped(orphan)} orphan`,
    errors > 0 && plural(errors, "error"),
  ];
  return parts.filter((part) => part !== false).join(", ");
}

export function isChanged({ state, counts }: Preview): boolean {
  return state === "done" && counts.changed + counts.new + counts.deleted + counts.orphan > 0;
}

/** The preview of one deployment: `5 changed, 1 deleted`, `no change`, `cannot be rendered`. */
export function describePreview(preview: Preview): string {
  switch (preview.state) {
    case "working":
      return "comparing with the live cluster";
    case "failed":
      return "cannot be rendered";
    case "done":
      return [
        describeChanges(preview.counts) || "no change",
        preview.suspended && "suspended",
        preview.approval === "pending" && "waits for approval",
        preview.approval === "after-merge" && isChanged(preview) && "will wait for approval",
      ]
        .filter((part) => typeof part === "string")
        .join("; ");
  }
}

/** What the deployments of a report have in common. */
export interface Totals {
  readonly deployments: number;
  readonly changed: number;
  readonly working: number;
  readonly failed: number;
  readonly changes: Changes;
}

export function totalsOf(previews: readonly Preview[]): Totals {
  const sum = (field: keyof Changes) => previews.reduce((total, { counts }) => total + counts[field], 0);
  return {
    deployments: previews.length,
    changed: previews.filter(isChanged).length,
    working: previews.filter(({ state }) => state === "working").length,
    failed: previews.filter(({ state }) => state === "failed").length,
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
export function share(some: number, all: number): string {
  return some === all ? plural(all, "deployment") : `${grouped(some)} of ${plural(all, "deployment")}`;
}

/** The verdict on the whole pull request, in at most 140 characters. */
export function describeReport(report: Report): string {
  if (report.state === "merged") return "merged";
  if (report.state === "closed") return "closed without merging";
  if (report.obstacle !== undefined) return describeObstacle(report.obstacle);
  const { deployments, changed, working, failed, changes } = totalsOf(report.previews);
  if (deployments === 0) return report.state === "working" ? "looking for deployments" : "no deployment is concerned";
  if (working > 0 || report.state === "working") return `comparing ${share(working || deployments, deployments)}`;
  const parts = [
    changed > 0 && `changes ${share(changed, deployments)}`,
    failed > 0 && `${share(failed, deployments)} cannot be rendered`,
  ].filter((part) => part !== false);
  const found = describeChanges(changes);
  if (parts.length === 0) return `changes nothing in ${plural(deployments, "deployment")}${found && `: ${found}`}`;
  return `${parts.join(", ")}${found && `: ${found}`}`;
}

function describeObstacle(obstacle: NonNullable<Report["obstacle"]>): string {
  switch (obstacle.kind) {
    case "fork":
      return "not rendered: it comes from a fork";
    case "conflict":
      return `cannot be merged: conflict${obstacle.paths.length > 0 ? ` in ${plural(obstacle.paths.length, "file")}` : ""}`;
    case "failed":
      return "the merge could not be made";
  }
}
