/** Renders Markdown like the git hosts, with the same anchors, so that a link works on both. */
import MarkdownIt from "markdown-it";
import { escapeHtml } from "./html.ts";
import { drawSequence } from "./sequence.ts";

export interface Heading {
  readonly level: number;
  readonly text: string;
  readonly anchor: string;
}

export interface PartOfPage extends Heading {
  /** The text below it without markup, for the search. */
  readonly words: string;
}

export interface Link {
  readonly target: string;
  readonly line: number;
}

export interface MarkdownPage {
  readonly title: string;
  readonly html: string;
  readonly headings: readonly Heading[];
  readonly parts: readonly PartOfPage[];
  readonly links: readonly Link[];
}

type Markdown = InstanceType<typeof MarkdownIt>;
type Token = ReturnType<Markdown["parse"]>[number];

/** @param toTarget returns the address on the site that a link or picture of the page refers to */
export function readMarkdown(text: string, toTarget: (link: string) => string = (link) => link): MarkdownPage {
  const markdown = new MarkdownIt({ html: true, linkify: false });
  markdown.renderer.rules.fence = markdown.renderer.rules.code_block = (tokens, index) => codeBlock(tokens[index]);
  markdown.renderer.rules.table_open = () => `<div class="table"><table>\n`;
  markdown.renderer.rules.table_close = () => `</table></div>\n`;
  const tokens = markdown.parse(text, {});
  const headings: Heading[] = [];
  const parts: { heading: Heading; words: string[] }[] = [];
  const links: Link[] = [];
  const seen = new Map<string, number>();
  let line = 1;

  for (const [index, token] of tokens.entries()) {
    if (token.map) line = token.map[0] + 1;
    if (token.type === "heading_open") {
      const words = plainText(tokens[index + 1]);
      const heading = { level: Number(token.tag.slice(1)), text: words, anchor: anchorOf(words, seen) };
      token.attrSet("id", heading.anchor);
      headings.push(heading);
      parts.push({ heading, words: [] });
    } else if (token.type === "inline" || token.type === "fence" || token.type === "code_block") {
      const isTitle = tokens[index - 1]?.type === "heading_open";
      if (!isTitle) parts.at(-1)?.words.push(plainText(token));
      for (const child of token.children ?? []) {
        const name = child.type === "link_open" ? "href" : child.type === "image" ? "src" : undefined;
        const target = name && child.attrGet(name);
        if (!name || typeof target !== "string") continue;
        links.push({ target, line });
        child.attrSet(name, toTarget(target));
      }
    }
  }
  return {
    title: headings[0]?.text ?? "",
    // An empty corner cell of a table is not a heading.
    html: markdown.renderer.render(tokens, markdown.options, {}).replaceAll(/<th([^>]*)><\/th>/g, "<td$1></td>"),
    headings,
    parts: parts.map(({ heading, words }) => ({ ...heading, words: words.join(" ").replaceAll(/\s+/g, " ") })),
    links,
  };
}

function plainText(token: Token | undefined): string {
  if (token === undefined) return "";
  if (token.children === null || token.children.length === 0) return token.content;
  return token.children
    .map((child) => (child.type === "softbreak" ? " " : child.type === "html_inline" ? "" : child.content))
    .join("");
}

/** As on GitHub: keeps letters, digits, `-` and `_`; the second heading of the same name gets `-1`. */
function anchorOf(text: string, seen: Map<string, number>): string {
  const base = text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-");
  const before = seen.get(base) ?? 0;
  seen.set(base, before + 1);
  return before === 0 ? base : `${base}-${before}`;
}

/** Renders comments paler, so that the commands stand out. */
function codeBlock(token: Token | undefined): string {
  const { content = "", info = "" } = token ?? {};
  if (info === "mermaid") return drawSequence(content);
  const lines = escapeHtml(content.replace(/\n$/, "")).split("\n");
  const isPale = info === "" || info === "sh" || info === "yaml";
  const shown = lines.map((line) =>
    isPale ? line.replace(/(^|\s)(#(?:\s.*|$))/, '$1<span class="comment">$2</span>') : line,
  );
  return `<div class="code"><pre tabindex="0"><code>${shown.join("\n")}\n</code></pre></div>\n`;
}
