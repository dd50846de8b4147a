/** Renders the table of deployments: a row for each while there is room, then a summary of the rest. */
import { keyText } from "../model.ts";
import type { Preview } from "../model/report.ts";
import { describeChanges, describeFailure, grouped, isChanged, plural, totalsOf } from "../preview/summary.ts";
import { urgencyOf } from "./groups.ts";
import { cellCode } from "./text.ts";

interface Column {
  readonly title: string;
  readonly align: "---" | "---:";
  /** `""`: empty. A column that is empty in every row is omitted. */
  cell(preview: Preview): string;
  /** Shown in empty cells. */
  readonly empty: string;
}

export interface TableOptions {
  /** The pull request is closed: unfinished previews will not be finished. */
  readonly over: boolean;
  readonly room: number;
}

/** Up to this many unchanged deployments are listed in the same table as the others. */
const mostUnchanged = 5;
/** Room for the line that counts what is left out, twice. */
const endingLength = 300;

export function renderTable(previews: readonly Preview[], { over, room }: TableOptions): string {
  const sorted = byUrgency(previews);
  const quiet = sorted.filter(isQuiet);
  if (quiet.length === sorted.length || quiet.length <= mostUnchanged) {
    return renderRows(sorted, over, room - endingLength).text;
  }
  const noteworthy = sorted.filter((preview) => !isQuiet(preview));
  const first = renderRows(noteworthy, over, room - endingLength);
  const title = `${plural(quiet.length, "deployment")} without a change`;
  const left = room - endingLength - first.text.length - title.length - foldLength;
  const second = first.complete ? renderRows(quiet, over, left) : undefined;
  if (second === undefined || second.shown === 0) return `${first.text}\n\nAnd ${title}.`;
  return `${first.text}\n\n${fold(title, second.text)}`;
}

function byUrgency(previews: readonly Preview[]): Preview[] {
  return previews
    .map((preview) => ({ preview, urgency: urgencyOf(preview) }))
    .sort((a, b) => a.urgency - b.urgency)
    .map(({ preview }) => preview);
}

const fold = (title: string, text: string) => `<details><summary>${title}</summary>\n\n${text}\n\n</details>`;
const foldLength = fold("", "").length + 4;

/** Whether nothing in it needs attention. */
function isQuiet(preview: Preview): boolean {
  const { errors, warnings } = preview.counts;
  return preview.state === "done" && !isChanged(preview) && errors + warnings + preview.drift === 0;
}

const toRow = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

function renderRows(previews: readonly Preview[], over: boolean, room: number) {
  const columns = columnsFor(over);
  const cells = previews.map((preview) => columns.map(({ cell }) => cell(preview)));
  const used = columns.map((column, at) => ({ ...column, at })).filter(({ at }) => cells.some((row) => row[at] !== ""));

  const lines = [toRow(used.map(({ title }) => title)), toRow(used.map(({ align }) => align))];
  let length = lines.reduce((sum, line) => sum + line.length + 1, 0);
  let shown = 0;
  for (const row of cells) {
    const line = toRow(used.map(({ at, empty }) => row[at] || empty));
    length += line.length + 1;
    if (length > room) break;
    lines.push(line);
    shown++;
  }
  const complete = shown === previews.length;
  const table = shown === 0 ? "" : lines.join("\n");
  const text = complete ? table : [table, describeRest(previews.slice(shown), shown > 0)].filter(Boolean).join("\n\n");
  return { text, shown, complete };
}

/** Summarizes the deployments whose rows do not fit. */
function describeRest(previews: readonly Preview[], afterOthers: boolean): string {
  const { deployments, changed, failed, notRun, working, changes } = totalsOf(previews);
  const found = describeChanges(changes);
  const same = deployments - changed - failed - working;
  const parts = [
    changed > 0 && `${grouped(changed)} changed${found && ` (${found})`}`,
    failed > notRun && `${grouped(failed - notRun)} that cannot be rendered`,
    notRun > 0 && `${grouped(notRun)} that could not be compared`,
    working > 0 && `${grouped(working)} not compared yet`,
    same > 0 && `${grouped(same)} without a change`,
  ].filter((part) => part !== false);
  return `${afterOthers ? "… and " : ""}${plural(deployments, afterOthers ? "more deployment" : "deployment")}: ${parts.join(", ")}.`;
}

function columnsFor(over: boolean): Column[] {
  const number = (title: string, read: (preview: Preview) => number): Column => ({
    title,
    align: "---:",
    empty: "–",
    cell: (preview) => (read(preview) > 0 ? grouped(read(preview)) : ""),
  });
  return [
    { title: " ", align: "---", empty: "", cell: (preview) => iconOf(preview, over) },
    { title: "deployment", align: "---", empty: "", cell: ({ deployment }) => cellCode(keyText(deployment)) },
    { title: "target · cluster", align: "---", empty: "", cell: placeOf },
    number("changed", ({ counts }) => counts.changed),
    number("new", ({ counts }) => counts.new),
    number("deleted", ({ counts }) => counts.deleted),
    number("orphan", ({ counts }) => counts.orphan),
    number("errors", ({ counts }) => counts.errors),
    number("existing drift", ({ drift }) => drift),
    { title: "remark", align: "---", empty: "", cell: (preview) => remarkOf(preview, over) },
  ];
}

function placeOf({ target, cluster }: Preview): string {
  return [target, cluster]
    .filter((part) => part !== undefined && part !== "")
    .map((part) => cellCode(part ?? ""))
    .join(" · ");
}

export function iconOf(preview: Preview, over: boolean): string {
  const { state, counts, suspended, objects } = preview;
  if (state === "working") return over ? "➖" : "⏳";
  if (state === "failed" || counts.errors > 0) return "❌";
  if (counts.deleted > 0 || objects.some(({ risks }) => risks.some(({ kind }) => kind !== "far-reaching"))) return "🔴";
  if (suspended) return "⏸️";
  return isChanged(preview) ? "🟡" : "⚪";
}

function remarkOf(preview: Preview, over: boolean): string {
  const { state, counts, suspended, approval, concealed } = preview;
  if (state === "working") return over ? "not compared" : "comparing …";
  const remarks = [
    state === "failed" && describeFailure(preview),
    state === "done" && !isChanged(preview) && counts.errors === 0 && "no change",
    preview.isolated === true && "without the cluster",
    suspended && "suspended: merging deploys nothing here",
    approval === "pending" && "waiting for approval",
    approval === "after-merge" && isChanged(preview) && "will need approval",
    preview.pruneWaits !== undefined && "the prune will need confirmation",
    concealed !== undefined && "only counts are shown",
    counts.warnings > 0 && plural(counts.warnings, "warning"),
  ];
  return remarks.filter((remark) => remark !== false).join("; ");
}
