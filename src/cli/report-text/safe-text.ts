/** Foreign text at the terminal: whatever it contains, the terminal only shows it. Pure. */
import type { Markup } from "../../comment/text.ts";
import { makeVisible } from "../../preview/visible-text.ts";

/** A name or a value in one line; `–` if it is empty. */
export function oneLine(text: string): string {
  return makeVisible(text).replace(/\s+/g, " ").trim() || "–";
}

/** A sentence in one line, without the backticks around code. */
export function sentence(text: string): string {
  return oneLine(text.replace(/`([^`\n]+)`/g, "$1"));
}

/** The lines of a message or a diff. */
export function toLines(text: string): string[] {
  return makeVisible(text.replaceAll("\r\n", "\n"))
    .replace(/^\n+|\n+$/g, "")
    .split("\n");
}

/** Sentences of the comment without Markdown. */
export function plainMarkup(strong: Markup["strong"]): Markup {
  return { code: oneLine, strong, sentence };
}
