/**
 * Text for targets that pass it on to chats and mailboxes without escaping it for any of them: what one of them
 * interprets is replaced by what looks the same. Pure.
 */
import type { NoticeLine } from "../model.ts";

/** `@everyone` counts within a word, too; other mentions only at its beginning, unlike `image@sha256:…`. */
const mention = /@(?=everyone|here)|(?<![\p{L}\p{N}])@(?=[\p{L}\p{N}])/giu;
const gap = "\u200b";
/** `and 199 more` */
const longestCount = 40;

const marks = { failed: "✗", warning: "!", waiting: "!", progress: "…", succeeded: "✓" } as const;

export function toPlainLine({ name, state, text }: NoticeLine): string {
  return toPlain(`${marks[state]} ${[name, text].filter(Boolean).join(": ")}`);
}

/** Of one line, renders what is no markup anywhere. */
export function toPlain(line: string): string {
  return (
    line
      // Slack's mentions and links, and HTML.
      .replaceAll("<", "‹")
      .replaceAll(">", "›")
      .replace(mention, `@${gap}`)
      // Markdown's links and headings.
      .replaceAll("](", `]${gap}(`)
      .replace(/^#/, `${gap}#`)
  );
}

/** Joins what fits into `most` characters: first the lines, with the number of those that do not fit, then the rest. */
export function joinLines(lines: readonly string[], leftOut: number, rest: readonly string[], most: number): string {
  let room = most - longestCount;
  const fits = (line: string): boolean => (room -= line.length + 1) >= 0;
  const tooLong = lines.findIndex((line) => !fits(line));
  const shown = tooLong === -1 ? lines : lines.slice(0, tooLong);
  const left = lines.length - shown.length + leftOut;
  return [...shown, ...(left > 0 ? [`and ${left} more`] : []), ...rest.filter(fits)].join("\n");
}
