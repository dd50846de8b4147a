/** What surrounds the details: the verdict, what has to be known about it, and what was compared with what. */
import type { Report } from "../../report.ts";
import {
  type Changes,
  describeChangedObjects,
  describeChanges,
  grouped,
  nothingIn,
  plural,
  share,
  shareBeside,
  totalsOf,
} from "../summary.ts";
import { code } from "./text.ts";

/** As often as this the base has to move before it is worth a line. */
const manyRestarts = 3;

export function renderVerdict(report: Report): string {
  const base = code(report.baseBranch);
  if (report.state === "merged") return `### Towline: merged into ${base}`;
  if (report.state === "closed") return "### Towline: closed without merging";
  switch (report.obstacle?.kind) {
    case "fork":
      return "### Towline: not rendered, because it comes from a fork";
    case "conflict":
      return `### Towline: cannot be merged into ${base}`;
    case "failed":
      return `### Towline: merging into ${base} could not be tried`;
    case undefined:
      return `### Towline: ${describeMerge(report)}`;
  }
}

function describeMerge({ state, previews }: Report): string {
  const totals = totalsOf(previews);
  const { deployments, changed, working, failed, changes } = totals;
  if (deployments === 0) {
    return state === "working" ? "looking for what merging would change …" : "merging concerns no deployment";
  }
  if (state === "working" || working > 0) {
    return `comparing ${plural(deployments, "deployment")} with the live cluster …`;
  }
  const broken = failed > 0 ? `${share(failed, deployments)} cannot be rendered` : "";
  if (changed > 0) {
    const merging = `merging ${describeAll(changes, shareBeside(changed, totals))}`;
    return [broken, merging].filter(Boolean).join("; ");
  }
  const errors = changes.errors > 0 ? ` · ${plural(changes.errors, "error")}` : "";
  return `${broken || `merging ${nothingIn(deployments)}`}${errors}`;
}

/** What is deleted comes first, and cannot be overlooked. */
function describeAll(changes: Changes, where: string): string {
  if (changes.deleted === 0) return `changes ${where}: ${describeChangedObjects(changes)}`;
  const rest = describeChanges({ ...changes, deleted: 0 });
  return `**deletes ${plural(changes.deleted, "object")}** in ${where}${rest && ` · ${rest}`}`;
}

/** Lines below the verdict. */
export function renderNotes(report: Report): string[] {
  const { state, restarts, base, previews, obstacle } = report;
  const notes: string[] = [];
  if (state === "merged" && previews.length > 0) notes.push("Its deployments follow on their own.");
  if (state === "closed") notes.push("Nothing of it is deployed.");
  const done = previews.filter((preview) => preview.state !== "working").length;
  if (state === "working" && done > 0) notes.push(`${grouped(done)} of ${plural(previews.length, "deployment")} done.`);
  if (state !== "merged" && state !== "closed" && restarts >= manyRestarts && obstacle === undefined) {
    const since = base === undefined ? "" : ` since ${code(shortHash(base))}`;
    notes.push(`${code(report.baseBranch)} moves faster than this can be compared, and has moved on${since}.`);
  }
  return notes;
}

/** What was compared with what, and when. */
export function renderFooter({ head, base, baseBranch, finishedAt, startedAt, obstacle }: Report): string {
  const merge = `${code(shortHash(head))} into ${code(baseBranch)}${base === undefined ? "" : ` at ${code(shortHash(base))}`}`;
  const compared = base !== undefined && obstacle === undefined;
  const parts = [
    `Merge of ${merge}${compared ? ", compared with the live cluster" : ""}`,
    finishedAt === undefined ? `since ${time(startedAt)}` : time(finishedAt),
    finishedAt !== undefined && compared && `took ${duration(finishedAt - startedAt)}`,
  ];
  return `<sub>${parts.filter((part) => part !== false).join(" · ")}</sub>`;
}

function shortHash(commit: string): string {
  return /^[\da-f]{40,64}$/.test(commit) ? commit.slice(0, 7) : commit;
}

function time(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime())
    ? "at an unknown time"
    : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
