/**
 * Renders sequence diagrams as pictures. The git hosts render the Mermaid text of a page themselves; the site renders
 * the same text at build time in the colours of the page. Supports the subset of Mermaid that our pages use and rejects
 * anything else.
 */
import { escapeHtml } from "./html.ts";

interface Message {
  readonly from: number;
  readonly to: number;
  /** An answer has a dashed line. */
  readonly isAnswer: boolean;
  readonly words: string;
}

interface Sequence {
  readonly numbered: boolean;
  readonly participants: readonly string[];
  readonly messages: readonly Message[];
}

/** Pixels at full size. */
const [gap, side, top, lineHeight, letter] = [120, 66, 52, 16, 6.6];
const loop = { width: 26, height: 18 };

/** Throws on what it cannot draw, so that no diagram loses anything silently. */
export function drawSequence(text: string): string {
  const { numbered, participants, messages } = parseSequence(text);
  const x = (at: number) => side + at * gap;
  const lastSpeaksToItself = messages.some(({ from, to }) => from === to && from === participants.length - 1);
  const width = x(participants.length - 1) + (lastSpeaksToItself ? gap : side);
  const parts: string[] = [];
  let y = top;
  for (const [index, message] of messages.entries()) {
    const { from, to, isAnswer } = message;
    const lines = wrap(message.words, roomFor(message));
    y += lines.length * lineHeight + 10;
    const kind = isAnswer ? ' class="answer"' : "";
    if (from === to) {
      const [left, begin] = [x(from), y - lines.length * lineHeight + 2];
      const end = Math.max(y, begin + loop.height);
      parts.push(
        `<path${kind} d="M${left} ${begin}h${loop.width}V${end}H${left + 2}"/>`,
        arrowHead(left, end, -1),
        words(lines, left + loop.width + 6, (begin + end) / 2 - ((lines.length - 1) * lineHeight) / 2 + 4, "start"),
      );
      if (numbered) parts.push(number(index + 1, left, begin));
      y = end;
    } else {
      const [left, right] = [x(from), x(to)];
      const ahead = Math.sign(right - left);
      parts.push(
        `<path${kind} d="M${left} ${y}H${right - 2 * ahead}"/>`,
        arrowHead(right, y, ahead),
        words(lines, (left + right) / 2, y - 6 - (lines.length - 1) * lineHeight, "middle"),
      );
      if (numbered) parts.push(number(index + 1, left, y));
    }
    y += 10;
  }
  const height = y + 14;
  const heads = participants.map((name, at) => {
    const lines = wrap(name, gap - 22);
    const box = `<rect x="${x(at) - gap / 2 + 6}" y="2" width="${gap - 12}" height="${top - 12}" rx="5"/>`;
    const life = `<path class="life" d="M${x(at)} ${top - 10}V${height}"/>`;
    return life + box + words(lines, x(at), 26 - ((lines.length - 1) * lineHeight) / 2, "middle");
  });
  const label = escapeHtml(`${messages.length} steps between ${participants.join(", ")}`);
  return (
    `<div class="diagram" role="group" tabindex="0" aria-label="Diagram">` +
    `<svg viewBox="0 0 ${width} ${height}" width="${width}" role="img" aria-label="${label}">` +
    `${heads.join("")}${parts.join("")}</svg></div>\n`
  );
}

function parseSequence(text: string): Sequence {
  const [kind, ...lines] = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  if (kind !== "sequenceDiagram") throw new Error(`the site cannot draw diagrams of type ${kind}`);
  const ids: string[] = [];
  const participants: string[] = [];
  const messages: Message[] = [];
  let numbered = false;
  const at = (id = "") => {
    if (!ids.includes(id)) throw new Error(`${id} is not a participant of the diagram`);
    return ids.indexOf(id);
  };
  for (const line of lines) {
    const participant = /^participant (\w+)(?: as (.+))?$/.exec(line);
    const message = /^(\w+)(--?)>>(\w+): (.+)$/.exec(line);
    if (line === "autonumber") numbered = true;
    else if (participant) {
      const [, id = "", name = id] = participant;
      ids.push(id);
      participants.push(name);
    } else if (message) {
      const [, from, arrow, to, said = ""] = message;
      messages.push({ from: at(from), to: at(to), isAnswer: arrow === "--", words: said });
    } else throw new Error(`the site cannot draw this line of a diagram: ${line}`);
  }
  return { numbered, participants, messages };
}

function roomFor({ from, to }: Message): number {
  return from === to ? gap - loop.width - 12 : Math.abs(from - to) * gap - 26;
}

/** Breaks the text into lines of about this width. */
function wrap(text: string, room: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1) ?? ""} ${word}`.trim();
    if (lines.length > 0 && longer.length * letter <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function words(lines: readonly string[], x: number, y: number, anchor: "start" | "middle"): string {
  const spans = lines.map((line, at) => `<tspan x="${x}" y="${y + at * lineHeight}">${escapeHtml(line)}</tspan>`);
  return `<text text-anchor="${anchor}">${spans.join("")}</text>`;
}

function arrowHead(x: number, y: number, ahead: number): string {
  return `<path class="head" d="M${x} ${y}l${-9 * ahead} -4v8z"/>`;
}

function number(count: number, x: number, y: number): string {
  return `<circle cx="${x}" cy="${y}" r="9"/><text class="number" text-anchor="middle" x="${x}" y="${y + 4}">${count}</text>`;
}
