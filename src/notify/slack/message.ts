/**
 * A notification as a Slack message. Texts from users are in rich text and in plain text objects, whose content Slack
 * does not format.
 */
import type { NoticeLine, NoticeLink, Notification } from "../../model.ts";
import { fit } from "../fit.ts";
import { factsOf, marks, sampleNotice, signedTitle, signOf, toBriefFacts, toneOf } from "../marks.ts";
import { utcText } from "../../kit/utc-text.ts";

// Slack's documented limits. Here they apply to escaped text in UTF-16 units, which is never less strict.
const longestHeader = 150;
const longestText = 3_000;
const mostContextElements = 10;
/**
 * Slack rejects messages whose blocks have more than about 13 200 characters in total, which is undocumented, as is how
 * it counts (https://github.com/slackapi/bolt-js/issues/2509). This limits the whole request.
 */
const mostBytes = 12_000;

/** In texts without blocks: the preview of a notification, and a reply. Slack advises at most 4 000 characters. */
const mostLinesInBrief = 3;
const longestLineInBrief = 500;

const bold = { bold: true } as const;

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** The JSON of a request with this message; `undefined` if it cannot be made small enough. */
export function renderMessage(message: Notification, more: object): string | undefined {
  return fit(message, mostBytes, (fitting) => JSON.stringify({ ...more, ...toMessage(fitting) }));
}

/** The same in brief, for a reply. */
export function renderReply(message: Notification, more: object): string | undefined {
  return fit(message, mostBytes, (fitting) => {
    const lines = pressingOf(fitting).flatMap((line) => [textRun("\n"), ...toRuns(line)]);
    const blocks = [richText([textRun(signedTitle(fitting), bold), ...lines])];
    return JSON.stringify({ ...more, text: toBrief(fitting), blocks });
  });
}

/**
 * Only an attachment has a coloured bar, but Slack may hide the end of a long one behind a button. Title and facts are
 * therefore outside of it; and the lines are one block, because it hides blocks after the first few.
 */
function toMessage(message: Notification) {
  const { lines, linesLeftOut, links, sample } = message;
  const body = [
    ...(lines.length === 0 ? [] : [richText(joinRuns(lines.map(toRuns), "\n"))]),
    ...(linesLeftOut === 0 ? [] : [context([plain(`and ${linesLeftOut} more`)])]),
    ...(links.length === 0 ? [] : [richText(joinRuns(links.map(toLink), " · "))]),
  ];
  return {
    text: toBrief(message),
    blocks: [...(sample === true ? [context([plain(sampleNotice)])] : []), toTitle(message), toFacts(message)],
    // If it is absent, a changed message keeps the attachment that it had.
    attachments: body.length === 0 ? [] : [{ color: marks[toneOf(message)].color, blocks: body }],
  };
}

/** Slack has no larger letters for a title that is too long for a header. */
function toTitle(message: Notification) {
  const title = signedTitle(message);
  const header = escape(title, longestText);
  return header.length <= longestHeader ? { type: "header", text: plain(header) } : richText([textRun(title, bold)]);
}

function toFacts(message: Notification) {
  const facts = toBriefFacts(factsOf(message)).slice(0, mostContextElements - 1);
  return context([...facts.map((fact) => plain(escape(fact, longestText))), toTime(message.at)]);
}

/** In the reader's time zone. Of a changed message, Slack itself shows only when it was first sent. */
function toTime(at: number) {
  const text = `<!date^${Math.floor(at / 1_000)}^{date_short_pretty} {time}|${utcText(at)}>`;
  return { type: "mrkdwn", text };
}

function toBrief(message: Notification): string {
  const lines = pressingOf(message).map((line) => {
    const { name, text } = line;
    return escape(`${signOf(line)} ${name}${text === "" ? "" : `: ${text}`}`, longestLineInBrief);
  });
  return [escape(signedTitle(message), longestText), ...lines].join("\n");
}

function pressingOf({ lines }: Notification): readonly NoticeLine[] {
  return lines.filter(({ state }) => state !== "succeeded" && state !== "progress").slice(0, mostLinesInBrief);
}

/** Slack rejects an empty run. */
function toRuns(line: NoticeLine): Run[] {
  const { name, text } = line;
  return [
    textRun(`${signOf(line)} `),
    ...(name === "" ? [] : [textRun(name, bold)]),
    ...(text === "" ? [] : [textRun(`: ${text}`)]),
  ];
}

function toLink({ label, url }: NoticeLink): Run[] {
  return [{ type: "link", url, text: label || "Link" }];
}

interface Run {
  readonly type: "text" | "link";
  readonly text: string;
  readonly url?: string;
  readonly style?: { readonly bold: true };
}

function textRun(text: string, style?: Run["style"]): Run {
  return { type: "text", text, ...(style && { style }) };
}

function joinRuns(groups: readonly (readonly Run[])[], separator: string): Run[] {
  return groups.flatMap((runs, index) => (index === 0 ? runs : [textRun(separator), ...runs]));
}

function richText(elements: readonly Run[]) {
  return { type: "rich_text", elements: [{ type: "rich_text_section", elements }] };
}

function context(elements: readonly { readonly type: string; readonly text: string }[]) {
  return { type: "context", elements };
}

function plain(text: string) {
  return { type: "plain_text", text, emoji: false };
}

/** Escapes the text. If the result is longer than `max`, its beginning is kept, which ends with an ellipsis. */
function escape(text: string, max: number): string {
  const whole = text.replaceAll(/[&<>]/g, (character) => escapes[character] ?? "");
  if (whole.length <= max) return whole;
  let start = "";
  for (const character of text) {
    const next = start + (escapes[character] ?? character);
    if (next.length >= max) break;
    start = next;
  }
  return `${start}…`;
}
