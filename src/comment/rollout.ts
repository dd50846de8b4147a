/** Renders the rollout of a merged pull request: what became of it in each deployment, and when. */
import type { Report, RolloutLine, RolloutRest } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { cellCode, code } from "./text.ts";

/** More would not fit on a screen; failures come first. */
const mostRows = 12;

const signs = { pending: "⏳", success: "✅", failure: "❌", canceled: "⏭️" } as const;

/** Empty as long as nothing is known. */
export function renderRollout({ state, rollout = [], rolloutRest, mergeCommit = "" }: Report): string {
  if (state !== "merged" || rollout.length === 0) return "";
  const whole = rollout.find(({ deployment }) => deployment === "");
  const each = rollout.filter(({ deployment }) => deployment !== "");
  const title = `**Rollout of ${code(mergeCommit.slice(0, 7))}**`;
  const sum = whole === undefined ? `${title}:` : `${title}: ${renderStep(whole)}`;
  const { lines: rest = [], more: uncounted = 0 } = rolloutRest ?? {};
  if (each.length + rest.length === 0) return sum;
  const [failed, others] = [each.filter(hasFailed), each.filter((line) => !hasFailed(line))];
  const all = [...failed.map(renderRow), ...rest.map(renderRest), ...others.map(renderRow)];
  const rows = all.slice(0, mostRows);
  const hidden = all.length - rows.length + uncounted;
  const more = hidden > 0 ? `\n\n… and ${plural(hidden, "more deployment")}` : "";
  const head = ["| deployment | rollout (UTC) |", "| --- | --- |"];
  return `${all.length === 1 && rest.length === 0 ? `${title}:` : sum}\n\n${[...head, ...rows].join("\n")}${more}`;
}

function hasFailed({ steps }: RolloutLine): boolean {
  return steps.at(-1)?.state === "failure";
}

function renderStep({ steps }: RolloutLine): string {
  const last = steps.at(-1);
  return last === undefined ? "" : `${signs[last.state]} ${cellCode(last.text)}`;
}

const kinds: ReadonlyMap<string, string> = new Map([
  ["kustomization", "Kustomization"],
  ["helmrelease", "HelmRelease"],
]);

/** As the previews above call it: `Kustomization shop/prod`. */
function nameOf(deployment: string): string {
  const [first = "", ...rest] = deployment.split("/");
  const kind = rest.length === 2 ? kinds.get(first) : undefined;
  return kind === undefined ? deployment : `${kind} ${rest.join("/")}`;
}

function renderRow(line: RolloutLine): string {
  const steps = line.steps.map(({ state, text, at }, index) => {
    const isLast = index === line.steps.length - 1;
    return `${isLast ? `${signs[state]} ` : ""}${cellCode(text)} ${clock(at)}`;
  });
  return `| ${cellCode(nameOf(line.deployment))} | ${steps.join(" → ")} |`;
}

/** When it began to is not recorded. */
function renderRest({ deployment, state, text }: RolloutRest["lines"][number]): string {
  return `| ${cellCode(nameOf(deployment))} | ${signs[state]} ${cellCode(text)} |`;
}

/** Identifies the comment below among our own: it is written once. */
export function failureMark({ mergeCommit = "" }: Pick<Report, "mergeCommit">): string {
  return `<!-- towline: rollout of ${mergeCommit} failed -->`;
}

/** Says to the author that it failed. `url`: of the comment with the details. */
export function renderFailure(report: Report, failed: readonly RolloutLine[], url: string | undefined): string {
  const { author = "", mergeCommit = "" } = report;
  const [first] = failed;
  const where = first === undefined ? "" : ` in ${code(nameOf(first.deployment))}`;
  const others = failed.length > 1 ? ` and ${plural(failed.length - 1, "more deployment")}` : "";
  const text = first?.steps.at(-1)?.text ?? "";
  const details = url === undefined ? "" : ` [Details](${url})`;
  return `${failureMark(report)}\n@${author} the rollout of ${code(mergeCommit.slice(0, 7))} failed${where}${others}: ${code(text)}.${details}`;
}

function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
