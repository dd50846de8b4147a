/** Formats the result of `towline replay` as text. Pure. */
import { utcText } from "../kit/utc-text.ts";
import { shortRef } from "../model/git-ref.ts";
import type { AffectedOnce, MatchingDifference } from "./compare-matching.ts";
import { short } from "./output.ts";
import { plain, table } from "./table.ts";

export interface Replay {
  /** Epoch milliseconds. */
  readonly sinceAt: number;
  readonly deliveries: number;
  /** Records that could not be read. */
  readonly unreadable: number;
  /** Newest first. */
  readonly differences: readonly MatchingDifference[];
  readonly deployments: readonly DeploymentTotal[];
}

/** For how many deliveries the changed configuration affects a deployment and the current one does not, and the reverse. */
export interface DeploymentTotal {
  readonly deployment: string;
  readonly gained: number;
  readonly lost: number;
}

/** The rest is in the other formats. */
const mostShown = 50;

export function describeReplay({ sinceAt, deliveries, differences, deployments }: Replay): string {
  const since = `since ${utcText(sinceAt, "seconds")}`;
  if (differences.length === 0) return `${count(deliveries, "delivery", "deliveries")} ${since}: no difference\n`;
  const shown = differences.slice(0, mostShown).map(describeDifference);
  const more = differences.length - shown.length;
  const totals = table([
    ["DEPLOYMENT", "GAINED", "LOST"],
    ...deployments.map(({ deployment, gained, lost }) => [deployment, orDash(gained), orDash(lost)]),
  ]);
  return [
    ...shown,
    ...(more > 0 ? [`and ${count(more, "other delivery", "other deliveries")}: use -o json\n`] : []),
    ...(deployments.length > 0 ? [totals] : []),
    `${differences.length} of ${count(deliveries, "delivery", "deliveries")} ${since} would be handled differently\n`,
  ].join("\n");
}

/** Totals by deployment, the most affected first. */
export function totalsOf(differences: readonly MatchingDifference[]): DeploymentTotal[] {
  const totals = new Map<string, { gained: number; lost: number }>();
  for (const difference of differences) {
    for (const kind of ["gained", "lost"] as const) {
      for (const { deployment } of difference[kind]) {
        const total = totals.get(deployment) ?? { gained: 0, lost: 0 };
        total[kind]++;
        totals.set(deployment, total);
      }
    }
  }
  return [...totals]
    .map(([deployment, total]) => ({ deployment, ...total }))
    .sort((a, b) => b.gained + b.lost - (a.gained + a.lost) || (a.deployment < b.deployment ? -1 : 1));
}

function describeDifference(difference: MatchingDifference): string {
  const { at, forge, event, commit, gained, lost, handled, pathsOmitted } = difference;
  const head = [utcText(at, "seconds"), forge, event.replace("-", " "), plain(aboutOf(difference)), short(commit)].join(
    "  ",
  );
  const rows = [
    ...gained.map((one) => ["+", one.deployment, `would be ${doneTo(one)}; now: ${plain(one.why)}`]),
    ...lost.map((one) => ["-", one.deployment, `would not be ${doneTo(one)}: ${plain(one.why)}`]),
  ];
  const lines = [
    ...(rows.length === 0 ? [] : table(rows).trimEnd().split("\n")),
    ...(handled ? [describeHandled(handled)] : []),
    ...(pathsOmitted ? ["its paths were not recorded, so every path counts as changed"] : []),
  ];
  return `${head}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

function describeHandled({ after, why }: NonNullable<MatchingDifference["handled"]>): string {
  return after ? `would be handled; now it is ignored: ${plain(why)}` : `would be ignored: ${plain(why)}`;
}

function doneTo({ as }: AffectedOnce): string {
  return as === "reconcile" ? "reconciled" : "previewed";
}

function aboutOf({ repoName, ref = "", pullRequest }: MatchingDifference): string {
  if (pullRequest !== undefined) return `${repoName}#${pullRequest}`;
  return `${repoName} ${shortRef(ref)}`;
}

function count(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}

function orDash(number: number): string {
  return number === 0 ? "–" : String(number);
}
