/**
 * Imitations of how git hosts show a comment: the elements and attributes that their sanitizers leave in user content, as far
 * as comments may use them, and a style sheet each, in light and dark.
 */
import MarkdownIt from "markdown-it";
import { escapeHtml } from "../../site/html.ts";

export interface Host {
  readonly name: "github" | "gitlab" | "gitea";
  /** The element's class in the style sheets. */
  readonly className: string;
  /** The width of a comment on a wide screen, in pixels. */
  readonly width: number;
}

export const hosts: readonly Host[] = [
  { name: "github", className: "github", width: 870 },
  { name: "gitlab", className: "gitlab", width: 910 },
  { name: "gitea", className: "gitea", width: 840 },
];

/**
 * What all three leave in: html-pipeline's list (GitHub; GitLab builds on it and adds `details` and `summary`), and that of
 * bluemonday for user content (Gitea, Forgejo). Attributes by element; all others are removed.
 */
export const allowed: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(["b", "blockquote", "br", "em", "h1", "h2", "h3", "h4", "hr", "i"].map((name) => [name, []])),
  ...Object.fromEntries(["li", "ol", "p", "pre", "strong", "sub", "summary", "sup"].map((name) => [name, []])),
  ...Object.fromEntries(["table", "tbody", "thead", "tr", "ul"].map((name) => [name, []])),
  a: ["href"],
  code: ["class"],
  details: ["open"],
  img: ["src", "alt"],
  // By Markdown, for aligned columns; hosts turn it into their own form.
  td: ["style"],
  th: ["style"],
  // By the highlighter, after the sanitizer.
  span: ["class"],
};

/** The HTML of a comment as the host's Markdown gives it, before its sanitizer. */
export function toHtml(markdown: string): string {
  const reader = new MarkdownIt({
    html: true,
    linkify: true,
    highlight: (code, language) => highlight(code, language),
  });
  return reader.render(markdown);
}

function highlight(code: string, language: string): string {
  if (language !== "diff") return escapeHtml(code);
  const lines = code.replace(/\n$/, "").split("\n");
  return lines.map((line) => `<span class="${classOf(line)}">${escapeHtml(line)}\n</span>`).join("");
}

function classOf(line: string): "gi" | "gd" | "gc" {
  return line.startsWith("+") ? "gi" : line.startsWith("-") ? "gd" : "gc";
}
