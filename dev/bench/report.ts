/** Formats the figures for a terminal and for the documentation. Pure. */
import type { Machine } from "./machine.ts";
import { type Goal, megabytes, type MemoryRow, type Report, type Table } from "./measurement.ts";
import { profileWords } from "./profile-words.ts";
import type { Recorded } from "./record.ts";

export interface Finished {
  readonly name: string;
  readonly title: string;
  readonly report: Report | Error;
}

type Row = readonly string[];

export function toText(finished: readonly Finished[], machine: Machine): string {
  const sections = finished.map(({ title, report }) => {
    if (report instanceof Error) return `${title}\n\nfailed: ${report.message}`;
    const { tables, notes = [] } = report;
    return [title, ...tables.map(textTable), ...notes.map((note) => `  ${note}`)].join("\n\n");
  });
  const reports = finished.flatMap(({ report }) => (report instanceof Error ? [] : report));
  const all = [
    machine.map(([what, is]) => `${what.padEnd(12)}${is}`).join("\n"),
    ...sections,
    ...[memoryTable(reports), goalTable(reports)].filter(({ rows }) => rows.length > 0).map(textTable),
  ];
  return `\n${all.join("\n\n")}\n`;
}

/** The page, with the latest result of each measurement. */
export function toMarkdown(record: readonly Recorded[]): string {
  const reports = record.map(({ report }) => report);
  const [memory, goals] = [memoryTable(reports), goalTable(reports)];
  const newest = record.toSorted((a, b) => dateOf(a).localeCompare(dateOf(b))).at(-1)?.machine ?? [];
  const common = newest.filter(([what]) => !ofOneRun.has(what));
  const sections = record.map((one) => {
    const { how, tables, notes = [], plots = [] } = one.report;
    const pictures = plots.map(({ name, title }) => `![${title}](images/${name}.svg)`);
    const parts = [how, ...tables.map(markdownTable), ...pictures, ...notes, circumstances(one, newest)];
    return [`## ${one.title}`, ...parts].join("\n\n");
  });
  const all = [
    "<!-- Written by `npm run bench -- --write`. -->\n\n# Performance",
    "These measurements use real components: the control plane (etcd, kube-apiserver, controllers; kwok in place of a kubelet), Redis with its append-only file, " +
      "the git hosts, `towline serve` in its own process, and kluctl. All of them share one machine. " +
      "Towline is compared with kluctl's own controller: `kluctl controller run` of the same kluctl binary, with its own namespace and repository. " +
      "The measurements were taken in several runs; the date is below each. Run them yourself with `npm run bench`.",
    markdownTable({ head: ["measured on", ""], rows: common }),
    "## Goals",
    markdownTable(goals),
    ...missed(reports),
    ...sections,
    ...(memory.rows.length === 0 ? [] : ["## Memory and idle CPU", memoryWords, markdownTable(memory)]),
    "## CPU profile of the server",
    profileWords,
  ];
  return `${all.join("\n\n")}\n`;
}

/** Facts that are shown below each measurement instead of once for the page. */
const ofOneRun = new Set(["date", "otherwise"]);

function circumstances({ machine, quick }: Recorded, newest: Machine): string {
  const facts = new Map(machine);
  const others = machine.filter(([what, is]) => !ofOneRun.has(what) && new Map(newest).get(what) !== is);
  const words = [
    `Measured on ${facts.get("date") ?? "an unknown day"}; ${facts.get("otherwise") ?? "the load from unrelated processes is not known"}`,
    ...others.map(([what, is]) => `${what}: ${is}`),
    ...(quick ? ["a short run (`--quick`) with imprecise figures"] : []),
  ];
  return `_${words.join("; ")}._`;
}

function dateOf({ machine }: Recorded): string {
  return new Map(machine).get("date") ?? "";
}

const memoryWords =
  "Peak resident memory of the server process, and of the server with its child processes (kluctl and git; pages shared between processes count once). " +
  "Cores are the average CPU use of the server and its child processes.";

function memoryTable(reports: readonly Report[]): Table {
  const rows = reports.flatMap(({ memory }) => memory.map(memoryRow));
  return { head: ["memory and CPU", "server", "with child processes", "cores"], rows };
}

function memoryRow({ when, serverBytes, withChildrenBytes, cores }: MemoryRow): Row {
  return [when, megabytes(serverBytes), megabytes(withChildrenBytes), cores.toFixed(cores < 0.1 ? 3 : 2)];
}

function goalTable(reports: readonly Report[]): Table {
  const rows = reports.flatMap(({ goals }) => goals.map(goalRow));
  return { head: ["goal", "target", "measured", ""], rows };
}

/** The reasons for missed goals, where they are known. */
function missed(reports: readonly Report[]): string[] {
  const goals = reports.flatMap((report) => report.goals).filter(({ met, why }) => !met && why !== undefined);
  if (goals.length === 0) return [];
  return ["Missed goals, and why:", goals.map(({ what, why = "" }) => `- ${what}: ${why}`).join("\n")];
}

function goalRow({ what, wanted, measured, met }: Goal): Row {
  return [what, wanted, measured, met ? "met" : "missed"];
}

/** Aligns the first column to the left and the others to the right. */
function textTable({ head, rows }: Table): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  const line = (row: Row) =>
    widths.map((width, i) => (i === 0 ? (row[i] ?? "").padEnd(width) : (row[i] ?? "").padStart(width))).join("   ");
  return [line(head), widths.map((width) => "-".repeat(width)).join("   "), ...rows.map(line)]
    .map((text) => `  ${text.trimEnd()}`)
    .join("\n");
}

function markdownTable({ head, rows }: Table): string {
  const line = (row: Row) => `| ${head.map((_, i) => (row[i] ?? "").replaceAll("|", "\\|")).join(" | ")} |`;
  const marks = head.map((_, i) => (i === 0 ? "---" : "---:"));
  return [line(head), line(marks), ...rows.map(line)].join("\n");
}
