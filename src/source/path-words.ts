/** Finds what looks like a path with a parent directory in it. In linear time: the text may be anybody's. Pure. */
import { codeOf } from "../model/template-code.ts";

export interface PathWord {
  readonly word: string;
  /** Something else continues it, such as a template: what it names is at most known to be in the same directory. */
  readonly isPart: boolean;
  /** It can only start from the directory of its file. */
  readonly isOwn: boolean;
}

/** The different ones. `undefined`: a template puts one together, so that it may lead anywhere. */
export function pathWordsOf(text: string, file: string): readonly PathWord[] | undefined {
  if (!text.includes("..")) return [];
  const found = new Map<string, PathWord>();
  const add = (word: PathWord) => found.set(JSON.stringify(word), word);
  // Of what only people read, templates may still read something.
  if (!/\.md$/i.test(file)) {
    for (const place of wordsOf(text)) {
      if (isContinuation(text, place)) return undefined;
      const word = toWord(text, place);
      if (word !== undefined) add(word);
    }
  }
  const code = codeOf(text);
  for (const place of wordsOf(code)) {
    const word = toWordOfCode(code, place);
    // It may become any number of parents.
    if (word.word === "..") return undefined;
    add(word);
  }
  return [...found.values()];
}

/** Where a word is in a text. */
interface Span {
  readonly from: number;
  readonly to: number;
}

function* wordsOf(text: string): Generator<Span> {
  let to = 0;
  for (let at = text.indexOf(".."); at !== -1; at = text.indexOf("..", to)) {
    let from = at;
    while (from > to && isOfPath(text.charCodeAt(from - 1))) from--;
    to = at + 2;
    while (isOfPath(text.charCodeAt(to))) to++;
    if (/(?:^|\/)\.\.(?:\/|$)/.test(text.slice(from, to))) yield { from, to };
  }
}

/** Letters, digits, and `_`, `-`, `.` and `/`. */
function isOfPath(code: number): boolean {
  const isLetter = (code >= 97 && code <= 122) || (code >= 65 && code <= 90);
  return isLetter || (code >= 45 && code <= 57) || code === 95;
}

/** Whether a template ends right before a path that leaves what it puts there. */
function isContinuation(text: string, { from }: Span): boolean {
  return /[}%]\}$/.test(text.slice(Math.max(0, from - 2), from)) && text[from] === "/";
}

const [ends, quote] = [/^(?:$|[\s"'`,;:()[\]}|&<>#\\])/, /["'`]$/];

function toWord(text: string, { from, to }: Span): PathWord | undefined {
  const word = text.slice(from, to);
  const [before, after] = [text.slice(Math.max(0, from - longestIndent), from), text.slice(to, to + longestIndent)];
  // A name in quotes may contain spaces.
  if (!ends.test(after) || (quote.test(before) && after.startsWith(" "))) return { word, isPart: true, isOwn: false };
  if (!isOfDots(word)) return { word, isPart: false, isOwn: false };
  // Texts are full of dots: the directory above only counts as a value of its own.
  return isValue(before, after) ? { word, isPart: false, isOwn: true } : undefined;
}

const longestIndent = 100;

function isValue(before: string, after: string): boolean {
  return /[:[,-][ \t]*["']?$/.test(before) && /^["']?[ \t]*(?:$|[\r\n,\]}#])/.test(after);
}

/** In code, a text that is put together with others may begin any path. */
function toWordOfCode(code: string, { from, to }: Span): PathWord {
  const word = code.slice(from, to);
  const isWhole = /^["'][ \t\r]*(?:$|\n|[),%}-]|(?:with|without|ignore|import|as)\b)/.test(
    code.slice(to, to + longestIndent),
  );
  return { word, isPart: !isWhole || isOfDots(word), isOwn: false };
}

function isOfDots(word: string): boolean {
  return /^[./]*$/.test(word);
}
