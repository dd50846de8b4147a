/** Imitates how Slack shows a message, from the request's JSON: https://docs.slack.dev/reference/block-kit/blocks. */
import { escapeHtml } from "../site/html.ts";

interface SlackText {
  readonly type: string;
  readonly text: string;
}

interface SlackRun extends SlackText {
  readonly style?: { readonly bold?: boolean };
}

interface SlackSection {
  readonly type: string;
  readonly elements: readonly SlackRun[];
}

interface SlackBlock {
  readonly type: string;
  readonly text?: SlackText;
  readonly elements?: readonly (SlackText | SlackSection)[];
}

interface SlackMessage {
  /** What the notification of a computer or a phone shows. */
  readonly text: string;
  readonly blocks: readonly SlackBlock[];
  readonly attachments?: readonly { readonly color: string; readonly blocks: readonly SlackBlock[] }[];
}

export function toSlackHtml(json: string): string {
  const { text, blocks, attachments = [] } = JSON.parse(json) as SlackMessage;
  return `<div class="slack">
<div class="avatar">T</div>
<div class="message">
<div class="sender"><b>Towline</b> <span class="app">APP</span> <span class="time">2:02 PM</span></div>
${blocks.map(toBlock).join("\n")}
${attachments
  .map(
    ({ color, blocks: within }) =>
      `<div class="attachment" style="border-color: ${escapeHtml(color)}">${within.map(toBlock).join("\n")}</div>`,
  )
  .join("\n")}
</div>
<div class="toast"><b>Towline</b>\n${formatText(text)}</div>
</div>`;
}

function toBlock({ type, text, elements = [] }: SlackBlock): string {
  switch (type) {
    case "header":
    case "section":
      return `<div class="${type}">${toText(text)}</div>`;
    case "context":
      return `<div class="context">${elements.map((element) => `<span>${toText(element as SlackText)}</span>`).join("")}</div>`;
    case "rich_text":
      return elements.map((element) => `<div class="rich">${toRich(element as SlackSection)}</div>`).join("\n");
    default:
      throw new Error(`Slack's block ${type} is not imitated.`);
  }
}

/** Its text is shown as it is. */
function toRich({ type, elements }: SlackSection): string {
  if (type !== "rich_text_section") throw new Error(`Slack's element ${type} is not imitated.`);
  return elements
    .map(({ type: kind, text, style }) => {
      const shown = escapeHtml(text);
      if (kind === "link") return `<a>${shown}</a>`;
      return style?.bold === true ? `<b>${shown}</b>` : shown;
    })
    .join("");
}

function toText(text: SlackText | undefined): string {
  if (text === undefined) return "";
  return text.type === "mrkdwn" ? formatText(text.text) : escapeHtml(unescape(text.text));
}

/** Slack's markup: what is in angle brackets, and nothing else that our messages contain. */
function formatText(text: string): string {
  return text
    .split(/<([^<>]*)>/)
    .map((part, index) => (index % 2 === 1 ? toReference(part) : escapeHtml(unescape(part))))
    .join("");
}

function toReference(reference: string): string {
  const [target = "", label = target] = reference.split("|");
  const [, seconds] = /^!date\^(\d+)\^/.exec(target) ?? [];
  if (seconds !== undefined) {
    const date = new Date(Number(seconds) * 1_000);
    return escapeHtml(date.toLocaleString("en-US", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" }));
  }
  if (/^[@#!]/.test(target)) return `<mark>${escapeHtml(label)}</mark>`;
  return `<a>${escapeHtml(unescape(label))}</a>`;
}

function unescape(text: string): string {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
