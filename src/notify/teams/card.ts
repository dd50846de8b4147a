/**
 * A notification as an Adaptive Card for Teams. All text is in text runs: those have no markdown, whose escapes Teams
 * shows on phones (https://github.com/microsoft/AdaptiveCards/issues/5590).
 */
import type { NoticeLine, Notification } from "../../model.ts";
import { fit } from "../fit.ts";
import { factsOf, sampleNotice, signedTitle, signOf, toBriefFacts, type MessageTone, toneOf } from "../marks.ts";

/** Teams accepts 28 KB; whether these are 1 000 or 1 024 bytes each is not documented. */
const mostBytes = 28_000;
/** Teams shows no more buttons. */
const mostLinks = 6;

const styles: Readonly<Record<MessageTone, string>> = {
  // Not `emphasis`, which is hardly visible on a dark card.
  progress: "accent",
  good: "good",
  neutral: "emphasis",
  waiting: "warning",
  warning: "warning",
  error: "attention",
};
const bold = { weight: "Bolder" } as const;
const small = { size: "Small", isSubtle: true } as const;

/** The JSON that a workflow expects; `undefined` if it cannot be made small enough. */
export function renderCard(message: Notification): string | undefined {
  return fit(message, mostBytes, (fitting) => JSON.stringify(toEnvelope(toCard(fitting))));
}

/** A workflow fails on a card without it. */
function toEnvelope(content: object) {
  const attachment = { contentType: "application/vnd.microsoft.card.adaptive", contentUrl: null, content };
  return { type: "message", attachments: [attachment] };
}

function toCard(message: Notification) {
  const { lines, linesLeftOut, links, sample } = message;
  const title = paragraph([run(signedTitle(message), { ...bold, size: "Large" })]);
  return {
    $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
    type: "AdaptiveCard",
    version: "1.4",
    msteams: { width: "Full" },
    body: [
      {
        ...{ type: "Container", style: styles[toneOf(message)], bleed: true },
        items: sample === true ? [paragraph([run(sampleNotice)]), title] : [title],
      },
      ...lines.map(toParagraph),
      ...(linesLeftOut === 0 ? [] : [paragraph([run(`and ${linesLeftOut} more`, { isSubtle: true })])]),
      ...toFacts(message).map((facts, index) =>
        index === 0 && lines.length > 0 ? { ...facts, separator: true, spacing: "Medium" } : facts,
      ),
    ],
    actions: links
      .slice(0, mostLinks)
      .map(({ label, url }) => ({ type: "Action.OpenUrl", title: defuse(label) || "Link", url })),
  };
}

function toParagraph(line: NoticeLine) {
  const { name, text } = line;
  return paragraph([run(`${signOf(line)} `), run(name, bold), run(text === "" ? "" : `: ${text}`)]);
}

/** What is known of the commit, and below it where and when. */
function toFacts(message: Notification) {
  const { facts, at } = message;
  const where = toBriefFacts(factsOf({ ...message, facts: [] })).map((fact) => run(`${fact} · `, small));
  return [
    ...(facts.length === 0 ? [] : [paragraph([run(toBriefFacts(facts).join(" · "), small)])]),
    paragraph([...where, toTime(at)]),
  ];
}

/** Teams shows it in the reader's language and time zone. */
function toTime(at: number) {
  const time = `${new Date(at).toISOString().slice(0, 19)}Z`;
  return { type: "TextRun", text: `{{DATE(${time}, SHORT)}} {{TIME(${time})}}`, ...small };
}

/** Teams does not show a card with an empty run. */
function paragraph(runs: readonly ReturnType<typeof run>[]) {
  return { type: "RichTextBlock", spacing: "Small", inlines: runs.filter(({ text }) => text !== "") };
}

function run(text: string, more: object = {}) {
  return { type: "TextRun", text: defuse(text), ...more };
}

/**
 * Two sequences are interpreted even in text runs, and are therefore separated by a character without width: workflows
 * turn `<at>name</at>` into a mention, and cards turn `{{DATE(…)}}` into a date.
 */
function defuse(text: string): string {
  return text.replaceAll(/<(?=\/?at\b)|\{(?=\{)/gi, "$&\u200b");
}
