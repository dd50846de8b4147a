/** kluctl's errors and warnings about one deployment. */
import { messageText } from "../../comment/sections.ts";
import type { Preview } from "../../model/report.ts";
import { plural } from "../../preview/summary.ts";
import type { Colouring } from "./palette.ts";
import { toLines } from "./safe-text.ts";

/** Renders a title and the messages below it. `count`: their number, including those that were not stored. */
export function renderMessages(
  noun: "error" | "warning",
  messages: Preview["errors"],
  count: number,
  colour: Colouring,
): string[] {
  if (count === 0 && messages.length === 0) return [];
  const tone = noun === "error" ? "danger" : "caution";
  const leftOut = count - messages.length;
  return [
    colour(tone, plural(Math.max(count, messages.length), noun)),
    ...messages.flatMap((message) => toLines(messageText(message)).map((line) => `  ${line}`)),
    ...(leftOut > 0 ? [colour("aside", `  … and ${plural(leftOut, `more ${noun}`)}`)] : []),
  ];
}
