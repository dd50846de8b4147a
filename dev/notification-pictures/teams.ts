/** Imitates how Teams shows an Adaptive Card, from the JSON of its request: https://adaptivecards.io/explorer. */
import { escapeHtml } from "../site/html.ts";

interface CardElement {
  readonly type: string;
  readonly style?: string;
  readonly bleed?: boolean;
  readonly separator?: boolean;
  readonly spacing?: string;
  readonly items?: readonly CardElement[];
  readonly inlines?: readonly CardRun[];
}

interface CardRun {
  readonly type: string;
  readonly text: string;
  readonly weight?: string;
  readonly size?: string;
  readonly isSubtle?: boolean;
}

interface Card {
  readonly body: readonly CardElement[];
  readonly actions: readonly { readonly type: string; readonly title: string; readonly url: string }[];
}

export function toTeamsHtml(json: string): string {
  const { attachments } = JSON.parse(json) as { readonly attachments: readonly { readonly content: Card }[] };
  return attachments.map(({ content }) => toCardHtml(content)).join("\n");
}

function toCardHtml({ body, actions }: Card): string {
  const buttons = actions.map(({ title }) => `<span>${escapeHtml(title)}</span>`).join("");
  return `<div class="teams">
<div class="avatar">W</div>
<div class="message">
<div class="sender"><b>Workflows</b> <span class="time">2:02 PM</span></div>
<div class="card">
${body.map(toElement).join("\n")}
${buttons === "" ? "" : `<div class="actions">${buttons}</div>`}
</div>
</div>
</div>`;
}

function toElement({
  type,
  style,
  bleed,
  separator,
  spacing = "Default",
  items = [],
  inlines = [],
}: CardElement): string {
  const classes = [type, style, `space-${spacing}`, bleed ? "bleed" : "", separator ? "separated" : ""];
  const shown = `class="${classes.filter(Boolean).join(" ")}"`;
  switch (type) {
    case "Container":
      return `<div ${shown}>${items.map(toElement).join("\n")}</div>`;
    case "RichTextBlock":
      return `<p ${shown}>${inlines.map(toRun).join("")}</p>`;
    default:
      throw new Error(`The card's element ${type} is not imitated.`);
  }
}

function toRun({ type, text, weight = "", size = "", isSubtle = false }: CardRun): string {
  if (type !== "TextRun") throw new Error(`The card's run ${type} is not imitated.`);
  return `<span class="${weight} ${size} ${isSubtle ? "subtle" : ""}">${escapeHtml(formatTimes(text))}</span>`;
}

/** `{{DATE(…, SHORT)}}` and `{{TIME(…)}}`, in the time zone UTC. */
function formatTimes(text: string): string {
  return text.replaceAll(/\{\{(DATE|TIME)\(([^,)]+)[^)]*\)\}\}/g, (_, what: string, time: string) =>
    new Date(time).toLocaleString("en-US", {
      timeZone: "UTC",
      ...(what === "DATE"
        ? { weekday: "short", month: "short", day: "numeric", year: "numeric" }
        : { timeStyle: "short" }),
    }),
  );
}
