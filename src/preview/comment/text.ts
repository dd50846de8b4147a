/**
 * Text of users in a comment. It stands in code only, for that is the one place in which no host looks for mentions,
 * references, links, images, emoji, mathematics or markup; what could end the code, or cannot be seen, is taken care of
 * here.
 */
import { cut, cutLine, makeVisible, spellOut } from "../visible-text.ts";

/** A comment of HTML, as our own marker is one. Hosts do not read it in code, but who looks for the marker may. */
const commentStart = /<!--/g;

/** The most that is shown of one line. */
const longestLine = 500;
/** The most that is shown of a name; Kubernetes allows 253. */
const longestName = 260;

function visible(text: string): string {
  return makeVisible(text.replaceAll("\r\n", "\n")).replace(commentStart, `<${spellOut("!")}--`);
}

function oneLine(text: string): string {
  const whole = visible(cut(text, longestName + 1))
    .replace(/\s+/g, " ")
    .trim();
  const shown = cut(whole, longestName);
  return shown === whole ? shown : `${shown}…`;
}

function longestRun(text: string, pattern: RegExp): number {
  return Math.max(0, ...(text.match(pattern) ?? []).map((run) => run.length));
}

/** A name or a value in a sentence. */
export function code(text: string): string {
  const shown = oneLine(text);
  if (shown === "") return "–";
  const ticks = "`".repeat(longestRun(shown, /`+/g) + 1);
  const pad = shown.startsWith("`") || shown.endsWith("`") ? " " : "";
  return `${ticks}${pad}${shown}${pad}${ticks}`;
}

/** The same in a cell of a table, which a bar would end whatever stands around it. */
export function cellCode(text: string): string {
  return code(text).replaceAll("|", spellOut("|"));
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** The same in a line of HTML. */
export function htmlCode(text: string): string {
  return `<code>${oneLine(text).replace(/[&<>"]/g, (character) => entities[character] ?? "")}</code>`;
}

const quoted = /`([^`\n]+)`/;
/** What may stand around a word in a sentence. */
const punctuated = /^(["'(]*)(.*?)([.,;:!?"')]*)$/su;
/** Letters, with a hyphen between them at most, or a number. */
const plainWord = /^(?:\p{L}+(?:['’-]\p{L}+)*|\d{1,6})$/u;
/** A short commit hash, which hosts turn into a link. */
const hash = /^[\da-f]{7,}$/i;

/** A sentence: its plain words as they are, all else as code. */
export function prose(text: string): string {
  return cut(text, 600)
    .split(quoted)
    .map((part, index) => (index % 2 === 1 ? code(part) : plainWords(part)))
    .filter((part) => part !== "")
    .join(" ")
    .replace(/` ([.,;:)](?: |$))/g, "`$1");
}

function plainWords(text: string): string {
  return text
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => {
      const [, before = "", core = "", after = ""] = punctuated.exec(word) ?? [];
      if (core === "") return code(word);
      return `${before}${plainWord.test(core) && !hash.test(core) ? core : code(core)}${after}`;
    })
    .join(" ");
}

/** The lines that a block of code shows, each made fit to be seen. */
export function toLines(text: string): string[] {
  return visible(text)
    .replace(/^\n+|\s+$/g, "")
    .split("\n")
    .map(shorten);
}

/**
 * GitLab looks for quick actions (`/merge`), includes and quotes at the start of lines before it reads Markdown, and of
 * fences it knows only those of three ticks then.
 */
const readBeforeMarkdown = /^(?:\/|::|>>>)/;

function shorten(line: string): string {
  return cutLine(readBeforeMarkdown.test(line) ? ` ${line}` : line, longestLine);
}

/** A block of code. The lines are those of `toLines`. */
export function fence(lines: readonly string[], language: "" | "diff" = ""): string {
  const longest = lines.reduce((most, line) => Math.max(most, longestRun(line, /`{3,}/g)), 2);
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${lines.join("\n")}\n${ticks}`;
}
