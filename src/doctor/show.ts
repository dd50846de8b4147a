/** Formats findings as text and as data. Pure. */
import { exitCodeOf, type Finding, levels, type Level, type Section } from "./finding.ts";

/** Colours text on a terminal. */
export type Paint = (colour: "green" | "yellow" | "red" | "bold", text: string) => string;

const colours: Record<Level, "green" | "yellow" | "red"> = { ok: "green", warning: "yellow", problem: "red" };

export function toText(sections: readonly Section[], paint: Paint): string {
  const blocks = sections.map(({ title, findings }) => {
    const width = Math.min(50, Math.max(...findings.map(({ subject }) => subject.length)));
    return [paint("bold", title), ...findings.map((finding) => toLine(finding, width, paint))].join("\n");
  });
  return `${[...blocks, summaryOf(sections)].join("\n\n")}\n`;
}

/** Findings for JSON and YAML. */
export function toFacts(sections: readonly Section[]) {
  const status = levels[exitCodeOf(sections)];
  const checks = sections.flatMap(({ title, findings }) => findings.map((finding) => ({ group: title, ...finding })));
  return { status, counts: countsOf(sections), checks };
}

function toLine({ level, subject, message, advice }: Finding, width: number, paint: Paint): string {
  const mark = paint(colours[level], level.padEnd(7));
  const text = advice === undefined ? message : `${message.replace(/\.$/, "")} → ${advice}`;
  return `  ${mark}  ${subject.padEnd(width)}  ${oneLine(text)}`;
}

/** Removes line breaks and control characters from text of a cluster or git host. */
function oneLine(text: string): string {
  return text
    .trim()
    .replaceAll(/\s*[\r\n]+\s*/g, "; ")
    .replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, " ");
}

function summaryOf(sections: readonly Section[]): string {
  const counts = countsOf(sections);
  const parts = (["problem", "warning"] as const)
    .filter((level) => counts[level] > 0)
    .map((level) => `${counts[level]} ${level}${counts[level] === 1 ? "" : "s"}`);
  return parts.length === 0 ? `All ${counts.ok} checks are ok.` : `${parts.join(" and ")}, ${counts.ok} ok.`;
}

function countsOf(sections: readonly Section[]): Record<Level, number> {
  const found = sections.flatMap(({ findings }) => findings.map(({ level }) => level));
  const count = (level: Level) => found.filter((one) => one === level).length;
  return { ok: count("ok"), warning: count("warning"), problem: count("problem") };
}
