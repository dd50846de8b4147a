/**
 * Renders a notification as an e-mail. It begins with what its subject does not say, because programs show the beginning
 * next to the subject. The HTML sets no colors of text and backgrounds and has no images, so that it is readable in dark
 * mode. Pure.
 */
import type { NoticeLine, Notification } from "../../model.ts";
import { limitTexts } from "../fit.ts";
import { factsOf, lineTones, marks, sampleNotice, signedTitle, signOf } from "../marks.ts";
import { lineStates } from "../template.ts";
import { utcText } from "../../kit/utc-text.ts";

export interface MailContent {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export function renderMail(message: Notification): MailContent {
  const limited = limitTexts(message);
  return { subject: signedTitle(limited), text: renderPlain(limited), html: renderHtml(limited) };
}

const sender = "Sent by Towline.";

interface Group {
  readonly state: NoticeLine["state"];
  /** With the sign of the state; absent if all lines have the same, and the sign is in each of them. */
  readonly heading: string | undefined;
  readonly lines: readonly NoticeLine[];
}

function groupsOf({ lines }: Notification): Group[] {
  const groups = [...Map.groupBy(lines, ({ state }) => state)];
  return groups.map(([state, members]) => {
    const [first = "", ...rest] = lineStates[state];
    const heading = `${marks[lineTones[state]].sign} ${first.toUpperCase()}${rest.join("")}`;
    return { state, heading: groups.length > 1 ? heading : undefined, lines: members };
  });
}

function allFactsOf(message: Notification): Notification["facts"] {
  return [...factsOf(message), { label: "Time", value: utcText(message.at) }];
}

function renderPlain(message: Notification): string {
  const { lines, linesLeftOut, links, sample } = message;
  const groups = groupsOf(message).map(({ heading, lines: members }) => {
    const texts = members.map(({ name, text }) => `${name}${text === "" ? "" : `: ${text}`}`);
    if (heading !== undefined) return [heading, ...texts].join("\n");
    return members.map((line, index) => `${signOf(line)} ${texts[index]}`).join("\n");
  });
  const parts = [
    sample === true ? sampleNotice : "",
    ...(lines.length === 0 ? [describeEnd(message)] : groups),
    linesLeftOut > 0 ? `and ${linesLeftOut} more` : "",
    allFactsOf(message)
      .map(({ label, value }) => `${label}: ${value}`)
      .join("\n"),
    links.map(({ label, url }) => `${label}: ${url}`).join("\n"),
    sender,
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

/** Without lines, it is about something that is over. */
function describeEnd(message: Notification): string {
  return message.state === "closed" ? "Nothing needs to be done." : signedTitle(message);
}

/** Without `url=no` and the like, some programs make links of texts that look like addresses, dates or phone numbers. */
const head = `<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<meta name="format-detection" content="telephone=no, date=no, address=no, email=no, url=no">
<style>:root { color-scheme: light dark; }</style>`;
const bodyStyle = "font-family: system-ui, sans-serif; line-height: 1.5; max-width: 45em; overflow-wrap: anywhere";

function renderHtml(message: Notification): string {
  const { lines, linesLeftOut, links, sample } = message;
  const title = escapeHtml(signedTitle(message));
  const anchors = links.map(({ label, url }) => `<a href="${escapeHtml(url)}">${escapeHtml(label || "Link")}</a>`);
  const parts = [
    sample === true ? `<p><em>${sampleNotice}</em></p>` : "",
    ...(lines.length === 0 ? [`<p>${escapeHtml(describeEnd(message))}</p>`] : groupsOf(message).map(renderGroup)),
    linesLeftOut > 0 ? `<p>and ${linesLeftOut} more</p>` : "",
    ...allFactsOf(message).map(renderFact),
    links.length > 0 ? `<p>${anchors.join(" · ")}</p>` : "",
    `<p><small>${sender}</small></p>`,
  ];
  return `<!DOCTYPE html>
<html lang="en">
<head>
${head}
<title>${title}</title>
</head>
<body style="${bodyStyle}">
${parts.filter((part) => part !== "").join("\n")}
</body>
</html>
`;
}

function renderGroup({ state, heading, lines }: Group): string {
  const { color } = marks[lineTones[state]];
  const style = `list-style: none; margin: 0 0 1em; padding: 0 0 0 1em; border-left: 4px solid ${color}`;
  return `${heading === undefined ? "" : `<h2 style="font-size: 1em; margin: 0 0 0.25em">${heading}</h2>\n`}<ul style="${style}">
${lines.map((line) => renderLine(line, heading === undefined)).join("\n")}
</ul>`;
}

function renderLine(line: NoticeLine, isSigned: boolean): string {
  const { name, state, text } = line;
  // Those who hear it hear a word.
  const sign = isSigned ? `<span role="img" aria-label="${lineStates[state]}">${signOf(line)}</span> ` : "";
  const why = text === "" ? "" : `: ${escapeHtml(text)}`;
  return `<li dir="auto" style="margin: 0 0 0.25em">${sign}<strong>${escapeHtml(name)}</strong>${why}</li>`;
}

function renderFact({ label, value }: Notification["facts"][number]): string {
  const name = `<span style="opacity: 0.7">${escapeHtml(label)}:</span>`;
  return `<div dir="auto">${name} ${escapeHtml(value)}</div>`;
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? "");
}
