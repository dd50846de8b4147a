/**
 * Renders the table of deployments on one screen: a row for each, or for those with the same result if there are many,
 * the most urgent first. The rest is folded, and counted if there is no room for it.
 */
import { nameOfPreview, type Preview } from "../model/report.ts";
import {
  describeChanges,
  describeFailure,
  describeNoChange,
  grouped,
  isChanged,
  plural,
  totalsOf,
} from "../preview/summary.ts";
import { type Group, hasRisk } from "./groups.ts";
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

/** One deployment, or several with the same result. */
interface Row {
  readonly previews: readonly Preview[];
  readonly cells: readonly string[];
}

/** The columns that say which deployment it is; the others say what merging does. */
const names = "deployment";
const places = "target · cluster";

/** The rows that are visible at once. */
const mostRows = 12;
/** In one row; the section names all of them. */
const mostPlaces = 3;
/** Up to this many unchanged deployments are listed in the same table as the others. */
const mostUnchanged = 5;
/** Room for the line that counts what is left out, twice. */
const endingLength = 300;

export function renderTable(groups: readonly Group[], { over, room }: TableOptions): string {
  const columns = columnsFor(over);
  const rows = toRows(groups, columns);
  const quiet = rows.filter(({ previews }) => previews.every(isQuiet));
  const unchanged = quiet.flatMap(({ previews }) => previews);
  const foldsQuiet = quiet.length < rows.length && unchanged.length > mostUnchanged;
  const listed = foldsQuiet ? rows.filter((row) => !quiet.includes(row)) : rows;
  const [visible, more] = [listed.slice(0, mostRows), listed.slice(mostRows)];

  const first = renderRows(visible, columns, room - endingLength);
  const blocks = [first.text];
  let left = room - endingLength - first.text.length;
  const foldRows = (title: string, folded: readonly Row[]) => {
    const rest = left - title.length - foldLength;
    const { text, shown } = first.complete ? renderRows(folded, columns, rest) : { text: "", shown: 0 };
    const block = shown === 0 ? `… and ${title}.` : fold(title, text);
    left -= block.length;
    blocks.push(block);
  };
  if (more.length > 0) foldRows(describeRest(more), more);
  if (foldsQuiet) foldRows(`${plural(unchanged.length, "deployment")} without a change`, quiet);
  return blocks.filter(Boolean).join("\n\n");
}

const fold = (title: string, text: string) => `<details><summary>${title}</summary>\n\n${text}\n\n</details>`;
const foldLength = fold("", "").length + 4;

/** Whether nothing in it needs attention. */
function isQuiet(preview: Preview): boolean {
  const { errors, warnings } = preview.counts;
  return preview.state === "done" && !isChanged(preview) && errors + warnings + preview.drift === 0;
}

/** Deployments of a group share a row if there would be too many rows, and if their rows differ only in the names. */
function toRows(groups: readonly Group[], columns: readonly Column[]): Row[] {
  const deployments = groups.reduce((sum, { previews }) => sum + previews.length, 0);
  return groups.flatMap(({ previews }) => {
    const rows = Map.groupBy(previews, (preview) =>
      deployments > mostRows ? resultOf(preview, columns) : nameOfPreview(preview),
    );
    return [...rows.values()].map((members) => ({ previews: members, cells: cellsOf(members, columns) }));
  });
}

function resultOf(preview: Preview, columns: readonly Column[]): string {
  const results = columns.filter(({ title }) => title !== names && title !== places);
  return JSON.stringify(results.map(({ cell }) => cell(preview)));
}

function cellsOf(previews: readonly Preview[], columns: readonly Column[]): string[] {
  const [first] = previews;
  if (first === undefined) return [];
  return columns.map(({ title, cell }) => {
    const own = cell(first);
    if (title === names) return previews.length > 1 ? `${own} and ${grouped(previews.length - 1)} more, the same` : own;
    const isShared = title !== places || previews.every((preview) => cell(preview) === own);
    return isShared ? own : describePlaces(previews);
  });
}

function describePlaces(previews: readonly Preview[]): string {
  const targets = new Set(previews.flatMap(({ target }) => target ?? []));
  const clusters = new Set(previews.map(({ cluster }) => cluster));
  return [nameFew(targets, "target"), nameFew(clusters, "cluster")].filter(Boolean).join(" · ");
}

function nameFew(places: ReadonlySet<string>, noun: string): string {
  return places.size > mostPlaces ? plural(places.size, noun) : [...places].map(cellCode).join(", ");
}

const toLine = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

function renderRows(rows: readonly Row[], columns: readonly Column[], room: number) {
  const used = columns
    .map((column, at) => ({ ...column, at }))
    .filter(({ at }) => rows.some(({ cells }) => cells[at] !== ""));

  const lines = [toLine(used.map(({ title }) => title)), toLine(used.map(({ align }) => align))];
  let length = lines.reduce((sum, line) => sum + line.length + 1, 0);
  let shown = 0;
  for (const { cells } of rows) {
    const line = toLine(used.map(({ at, empty }) => cells[at] || empty));
    length += line.length + 1;
    if (length > room) break;
    lines.push(line);
    shown++;
  }
  const complete = shown === rows.length;
  const table = shown === 0 ? "" : lines.join("\n");
  const rest = `${shown > 0 ? "… and " : ""}${describeRest(rows.slice(shown), shown > 0)}.`;
  return { text: complete ? table : [table, rest].filter(Boolean).join("\n\n"), shown, complete };
}

/** Summarizes the deployments whose rows are not visible. */
function describeRest(rows: readonly Row[], afterOthers = true): string {
  const previews = rows.flatMap(({ previews: own }) => own);
  const { deployments, changed, failed, notRun, working, changes } = totalsOf(previews);
  const found = describeChanges(changes);
  const erring = previews.filter((preview) => hasErrors(preview) && !isChanged(preview)).length;
  const same = deployments - changed - failed - working - erring;
  const parts = [
    changed > 0 && `${grouped(changed)} changed${found && ` (objects: ${found})`}`,
    failed > notRun && `${grouped(failed - notRun)} that cannot be rendered`,
    notRun > 0 && `${grouped(notRun)} that could not be compared`,
    erring > 0 && `${grouped(erring)} with errors`,
    working > 0 && `${grouped(working)} not compared yet`,
    same > 0 && `${grouped(same)} without a change`,
  ].filter((part) => part !== false);
  return `${plural(deployments, afterOthers ? "more deployment" : "deployment")}: ${parts.join(", ")}`;
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
    { title: names, align: "---", empty: "", cell: (preview) => cellCode(nameOfPreview(preview)) },
    { title: places, align: "---", empty: "", cell: placeOf },
    number("changed", ({ counts }) => counts.changed),
    number("new", ({ counts }) => counts.new),
    number("deleted", ({ counts }) => counts.deleted),
    number("orphan", ({ counts }) => counts.orphan),
    number("errors", ({ counts }) => counts.errors),
    number("existing drift", ({ drift }) => drift),
    { title: "remark", align: "---", empty: "", cell: (preview) => remarkOf(preview, over) },
  ];
}

export function placeOf({ target, cluster }: Preview): string {
  return [target, cluster]
    .filter((part) => part !== undefined && part !== "")
    .map((part) => cellCode(part ?? ""))
    .join(" · ");
}

export function iconOf(preview: Preview, over: boolean): string {
  const { state, counts, suspended } = preview;
  if (state === "working") return over ? "➖" : "⏳";
  if (state === "failed" || counts.errors > 0) return "❌";
  if (counts.deleted > 0 || hasRisk(preview, "deletion", "immutable")) return "🔴";
  if (hasRisk(preview, "availability", "security")) return "🟠";
  if (suspended) return "⏸️";
  return isChanged(preview) ? "🟡" : "⚪";
}

const hasErrors = ({ state, counts }: Preview) => state === "done" && counts.errors > 0;

function remarkOf(preview: Preview, over: boolean): string {
  const { state } = preview;
  if (state === "working") return over ? "not compared" : "comparing …";
  const result =
    state === "failed"
      ? describeFailure(preview)
      : isChanged(preview) || hasErrors(preview)
        ? []
        : describeNoChange(preview);
  return [result, describeLimits(preview)].flat().join("; ");
}

/** What a reader has to know beside the numbers. */
export function describeLimits(preview: Preview): string[] {
  const { counts, suspended, approval, concealed } = preview;
  const limits = [
    preview.kind !== undefined && "applied by Flux",
    preview.noUpgrade === true && "no upgrade",
    preview.isolated === true && "without the cluster",
    suspended && "suspended: merging deploys nothing here",
    approval === "pending" && "waiting for approval",
    approval === "after-merge" && isChanged(preview) && "will need approval",
    preview.pruneWaits !== undefined && "the prune will need confirmation",
    concealed !== undefined && "only counts are shown",
    counts.warnings > 0 && plural(counts.warnings, "warning"),
  ];
  return limits.filter((limit) => limit !== false);
}

/** Names the only deployment in one line, with everything that the table would say. */
export function describeOnly(preview: Preview, over: boolean): string {
  const { drift } = preview;
  const where = [cellCode(nameOfPreview(preview)), placeOf(preview)].filter(Boolean).join(" · ");
  const said = [remarkOf(preview, over), drift > 0 && describeDrift(drift)].filter(Boolean);
  return `${iconOf(preview, over)} ${where}${said.length > 0 ? `: ${said.join("; ")}` : ""}`;
}

export function describeDrift(drift: number): string {
  return `existing drift in ${plural(drift, "object")}`;
}
