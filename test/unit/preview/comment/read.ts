/** Reads a comment as GitHub does: CommonMark with tables, autolinks, strikethrough and task lists. */
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

interface Node {
  readonly type: string;
  readonly value?: string;
  readonly lang?: string | null;
  readonly children?: readonly Node[];
}

export interface ReadComment {
  /** Every node, in the order of the text. */
  readonly nodes: readonly Node[];
  /** The text outside of code and HTML. */
  readonly prose: string;
  /** The HTML: a tag or a block each. */
  readonly html: readonly string[];
  /** The blocks of code with their language. */
  readonly blocks: readonly { readonly language: string; readonly text: string }[];
  readonly spans: readonly string[];
}

export function readComment(markdown: string): ReadComment {
  const root = fromMarkdown(markdown, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] }) as Node;
  const nodes = walk(root);
  const values = (type: string) => nodes.filter((node) => node.type === type).map(({ value = "" }) => value);
  return {
    nodes,
    prose: values("text").join("\n"),
    html: values("html"),
    blocks: nodes
      .filter(({ type }) => type === "code")
      .map(({ lang, value = "" }) => ({ language: lang ?? "", text: value })),
    spans: values("inlineCode"),
  };
}

function walk(node: Node): Node[] {
  return [node, ...(node.children ?? []).flatMap(walk)];
}
