/** What a check run shows beside the line of a status: the comment's text, and notes on the lines that failed. Pure. */
import type { CommitStatus, LineNote, StatusDetails } from "../model.ts";
import { keyText } from "../model.ts";
import type { Report } from "../model/report.ts";
import { plural } from "../preview/summary.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import { aggregateContext } from "./statuses.ts";

type Render = (report: Report, options: { readonly maxLength: number; readonly marker: string }) => string;

/** The shares of the room that are tried in turn: a comment is measured in UTF-16 units, of up to three bytes each. */
const shares = [1, 0.6, 1 / 3];

/** Adds details to the summary: on each status, the same notes would be shown several times. */
export function withDetails(
  statuses: readonly CommitStatus[],
  details: () => StatusDetails | undefined,
): readonly CommitStatus[] {
  return statuses.map((status) => (status.context === aggregateContext ? { ...status, details: details() } : status));
}

/** `maxBytes`: absent if the forge shows no details. */
export function detailsOf(report: Report, render: Render, maxBytes: number | undefined): StatusDetails | undefined {
  if (maxBytes === undefined) return undefined;
  const texts = shares.map((share) => () => render(report, { maxLength: Math.floor(maxBytes * share), marker: "" }));
  for (const text of texts) {
    const rendered = text();
    if (Buffer.byteLength(rendered) <= maxBytes) return { text: rendered, notes: notesOf(report) };
  }
  return { text: "", notes: notesOf(report) };
}

/** One note for each line and reason, however many deployments it breaks. */
function notesOf({ previews }: Report): LineNote[] {
  const broken = new Map<string, { note: Omit<LineNote, "title">; deployments: string[] }>();
  for (const { deployment, at, failure = "" } of previews) {
    if (at === undefined) continue;
    const note = { ...at, message: inOneLine(failure) };
    const same = broken.get(JSON.stringify(note)) ?? { note, deployments: [] };
    same.deployments.push(keyText(deployment));
    broken.set(JSON.stringify(note), same);
  }
  return [...broken.values()].map(({ note, deployments: [first = "", ...others] }) => {
    const which = others.length === 0 ? first : `${first} and ${plural(others.length, "other deployment")}`;
    return { ...note, title: `Towline: ${which} cannot be rendered` };
  });
}
