/** Renders the rollout of a merged pull request: what became of it in each deployment, and when. */
import type { Report, RolloutLine } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { cellCode, code } from "./text.ts";

/** More would not fit on a screen; failures come first. */
const mostRows = 12;

const signs = { pending: "⏳", success: "✅", failure: "❌", canceled: "⏭️" } as const;

/** Empty as long as nothing is known. */
export function renderRollout({ state, rollout = [], mergeCommit = "" }: Report): string {
  if (state !== "merged" || rollout.length === 0) return "";
  const whole = rollout.find(({ deployment }) => deployment === "");
  const each = rollout.filter(({ deployment }) => deployment !== "");
  const title = `**Rollout of ${code(mergeCommit.slice(0, 7))}**`;
  const sum = whole === undefined ? `${title}:` : `${title}: ${renderStep(whole)}`;
  if (each.length === 0) return sum;
  const sorted = each.toSorted((a, b) => Number(hasFailed(b)) - Number(hasFailed(a)));
  const rows = sorted.slice(0, mostRows).map(renderRow);
  const more = sorted.length > mostRows ? `\n\n… and ${plural(sorted.length - mostRows, "more deployment")}` : "";
  const head = ["| deployment | rollout (UTC) |", "| --- | --- |"];
  return `${each.length === 1 ? `${title}:` : sum}\n\n${[...head, ...rows].join("\n")}${more}`;
}

function hasFailed({ steps }: RolloutLine): boolean {
  return steps.at(-1)?.state === "failure";
}

function renderStep({ steps }: RolloutLine): string {
  const last = steps.at(-1);
  return last === undefined ? "" : `${signs[last.state]} ${cellCode(last.text)}`;
}

function renderRow(line: RolloutLine): string {
  const steps = line.steps.map(({ state, text, at }, index) => {
    const isLast = index === line.steps.length - 1;
    return `${isLast ? `${signs[state]} ` : ""}${cellCode(text)} ${clock(at)}`;
  });
  return `| ${cellCode(line.deployment)} | ${steps.join(" → ")} |`;
}

/** Identifies the comment below among our own: it is written once. */
export function failureMark({ mergeCommit = "" }: Pick<Report, "mergeCommit">): string {
  return `<!-- towline: rollout of ${mergeCommit} failed -->`;
}

/** Says to the author that it failed. `url`: of the comment with the details. */
export function renderFailure(report: Report, failed: readonly RolloutLine[], url: string | undefined): string {
  const { author = "", mergeCommit = "" } = report;
  const [first] = failed;
  const where = first === undefined ? "" : ` in ${code(first.deployment)}`;
  const others = failed.length > 1 ? ` and ${plural(failed.length - 1, "more deployment")}` : "";
  const text = first?.steps.at(-1)?.text ?? "";
  const details = url === undefined ? "" : ` [Details](${url})`;
  return `${failureMark(report)}\n@${author} the rollout of ${code(mergeCommit.slice(0, 7))} failed${where}${others}: ${code(text)}.${details}`;
}

function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
