/**
 * Renders text from users in a comment. It is always shown as code, the only place where no host interprets mentions,
 * references, links, images, emoji, math or markup. This file escapes what could end the code, and invisible
 * characters.
 */
import { cut, cutLine, makeVisible, spellOut } from "../preview/visible-text.ts";

/** Starts and ends of HTML comments, such as our own marker. Hosts ignore them in code, but a search for the marker may not. */
const commentStart = /<!--/g;

/** The longest part of a line that is shown. */
const longestLine = 500;
/** The longest part of a name that is shown; Kubernetes allows 253 characters. */
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

/** Renders a name or a value in a sentence. */
export function code(text: string): string {
  const shown = oneLine(text);
  if (shown === "") return "–";
  const ticks = "`".repeat(longestRun(shown, /`+/g) + 1);
  const pad = shown.startsWith("`") || shown.endsWith("`") ? " " : "";
  return `${ticks}${pad}${shown}${pad}${ticks}`;
}

/** The same in a table cell, where a bar would always end the cell. */
export function cellCode(text: string): string {
  return code(text).replaceAll("|", spellOut("|"));
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** The same in a line of HTML. */
export function htmlCode(text: string): string {
  return `<code>${oneLine(text).replace(/[&<>"]/g, (character) => entities[character] ?? "")}</code>`;
}

/** Marks parts of our sentences, so that the comment and the terminal share their words. */
export interface Markup {
  /** A name or a value from users. */
  code(text: string): string;
  strong(text: string): string;
  /** A sentence of ours with code in backticks. */
  sentence(text: string): string;
}

export const markdown: Markup = { code, strong: (text) => `**${text}**`, sentence: (text) => text };

const quoted = /`([^`\n]+)`/;
/** Punctuation that may surround a word in a sentence. */
const punctuated = /^(["'(]*)(.*?)([.,;:!?"')]*)$/su;
/** Letters, with a hyphen between them at most, or a number. */
const plainWord = /^(?:\p{L}+(?:['’-]\p{L}+)*|\d{1,6})$/u;
/** A short commit hash, which hosts turn into a link. */
const hash = /^[\da-f]{7,}$/i;

/** Renders a sentence: plain words as they are, everything else as code. */
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

/** Splits a text into the lines of a code block, without invisible characters. */
export function toLines(text: string): string[] {
  return visible(text)
    .replace(/^\n+|\s+$/g, "")
    .split("\n")
    .map(shorten);
}

/**
 * GitLab parses quick actions (`/merge`), includes and quotes at the start of lines before Markdown, and at that stage
 * recognizes only fences of three backticks.
 */
const readBeforeMarkdown = /^(?:\/|::|>>>)/;

function shorten(line: string): string {
  return cutLine(readBeforeMarkdown.test(line) ? ` ${line}` : line, longestLine);
}

/** Renders a code block from the lines of `toLines`. */
export function fence(lines: readonly string[], language: "" | "diff" = ""): string {
  const longest = lines.reduce((most, line) => Math.max(most, longestRun(line, /`{3,}/g)), 2);
  const ticks = "`".repeat(longest + 1);
  return `${ticks}${language}\n${lines.join("\n")}\n${ticks}`;
}
