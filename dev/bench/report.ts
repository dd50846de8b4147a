/** The figures, for a terminal and for the documentation. Pure. */
import type { Machine } from "./machine.ts";
import { type Goal, megabytes, type MemoryRow, type Report, type Table } from "./measurement.ts";

export interface Finished {
  readonly title: string;
  readonly report: Report | Error;
}

type Row = readonly string[];

export function toText(finished: readonly Finished[], machine: Machine): string {
  const sections = finished.map(({ title, report }) => {
    const body = report instanceof Error ? `failed: ${report.message}` : report.tables.map(textTable).join("\n\n");
    return `${title}\n\n${body}`;
  });
  const all = [
    machine.map(([what, is]) => `${what.padEnd(12)}${is}`).join("\n"),
    ...sections,
    ...tablesAtTheEnd(finished).map(textTable),
  ];
  return `\n${all.join("\n\n")}\n`;
}

export function toMarkdown(finished: readonly Finished[], machine: Machine): string {
  const [memory, goals] = [memoryTable(finished), goalTable(finished)];
  const sections = finished.map(({ title, report }) =>
    report instanceof Error
      ? `## ${title}\n\nFailed: ${report.message}`
      : [`## ${title}`, report.how, ...report.tables.map(markdownTable)].join("\n\n"),
  );
  const all = [
    "<!-- Written by `npm run bench -- --write`. -->\n\n# Performance",
    "Everything in this measurement is real: the control plane (etcd, kube-apiserver, controllers; kwok in place of a kubelet), Redis with its append-only file, " +
      "the git hosts, `towline serve` as a process of its own, and kluctl. All of it shares one machine. " +
      "The peer is `kluctl controller run` of the same kluctl binary, with a namespace and a repository of its own. " +
      "Run it yourself with `npm run bench`.",
    markdownTable({ head: ["measured on", ""], rows: machine }),
    "## Goals",
    markdownTable(goals),
    ...sections,
    ...(memory.rows.length === 0 ? [] : ["## Memory and idle CPU", memoryWords, markdownTable(memory)]),
  ];
  return `${all.join("\n\n")}\n`;
}

const memoryWords =
  "The server's own resident memory, and that with its children (kluctl and git; pages shared between processes count once), at the highest. " +
  "Cores are those that the server and its children kept busy meanwhile.";

function tablesAtTheEnd(finished: readonly Finished[]): Table[] {
  return [memoryTable(finished), goalTable(finished)].filter(({ rows }) => rows.length > 0);
}

function memoryTable(finished: readonly Finished[]): Table {
  const rows = finished.flatMap(({ report }) => (report instanceof Error ? [] : report.memory.map(memoryRow)));
  return { head: ["memory and CPU", "server", "with children", "cores"], rows };
}

function memoryRow({ when, serverBytes, withChildrenBytes, cores }: MemoryRow): Row {
  return [when, megabytes(serverBytes), megabytes(withChildrenBytes), cores.toFixed(cores < 0.1 ? 3 : 2)];
}

function goalTable(finished: readonly Finished[]): Table {
  const rows = finished.flatMap(({ report }) => (report instanceof Error ? [] : report.goals.map(goalRow)));
  return { head: ["goal", "wanted", "measured", ""], rows };
}

function goalRow({ what, wanted, measured, met }: Goal): Row {
  return [what, wanted, measured, met ? "met" : "missed"];
}

/** The first column to the left, the others to the right. */
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
