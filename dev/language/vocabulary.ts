/** One word per idea: words that texts for users must not contain, and their replacements. Pure. */
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

export interface Banned {
  readonly words: RegExp;
  readonly instead: string;
}

export interface Offence {
  readonly word: string;
  readonly instead: string;
  readonly text: string;
}

/** Apply to messages and to the documentation. */
export const banned: readonly Banned[] = [
  { words: /\b(?:tells|told|telling|(?<!cannot |can |to )tell)\b/i, instead: "report, notify, log, show, explain" },
  { words: /\b(?:looked|looks) at\b|\blook (?:after|round)\b/i, instead: "check, read, reconcile" },
  { words: /\bwhoever\b|\bwhom\b/i, instead: "the user, the sender, the caller, which" },
  { words: /\banew\b/i, instead: "again, from scratch" },
  { words: /(?<!\bthere )\b(?:is|are) none\b/i, instead: "is not a …, is invalid, there is no …" },
  { words: /\bof before\b/i, instead: "previous" },
  { words: /\bolder API\b/i, instead: "legacy API" },
  { words: /\bleft out\b|\bleaves? out\b|\bspared?\b/i, instead: "skipped, omitted" },
  { words: /\bgoes round\b|\bbr(?:ings?|ought) up to date\b/i, instead: "reconciled" },
  { words: /\bis worked on\b|\bat work\b/i, instead: "in progress, running" },
  { words: /\bheld back\b/i, instead: "blocked" },
  { words: /\bso long\b|\bbe it\b/i, instead: "the duration, or the case, in plain words" },
];

/** Apply to messages only: these name the user, the sender, the server. */
export const bannedInMessages: readonly Banned[] = [
  ...banned,
  { words: /\b(?:some|no|any)body\b/i, instead: "the user, the caller, no server" },
];

export function findOffences(text: string, vocabulary: readonly Banned[]): Offence[] {
  return vocabulary.flatMap(({ words, instead }) => {
    const [word] = words.exec(text) ?? [];
    return word === undefined ? [] : [{ word, instead, text }];
  });
}

interface Markdown {
  readonly type: string;
  readonly value?: string;
  readonly children?: readonly Markdown[];
}

/** Returns the paragraphs, headings and cells of a page, without code. */
export function findProse(markdown: string): string[] {
  const texts: string[] = [];
  const read = ({ type, value = "", children = [] }: Markdown): string =>
    type === "text" ? value : type === "inlineCode" ? "`…`" : children.map(read).join("");
  const visit = (node: Markdown): void => {
    if (["paragraph", "heading", "tableCell"].includes(node.type)) texts.push(read(node).replaceAll(/\s+/g, " "));
    else node.children?.forEach(visit);
  };
  visit(fromMarkdown(markdown, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] }) as Markdown);
  return texts;
}
