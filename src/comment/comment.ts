/** Renders the comment on a pull request: what merging would change, most important first. Pure. */
import { isOpen, type Preview, type Report, toShown } from "../model/report.ts";
import { renderChildren } from "./children.ts";
import { renderDangers } from "./dangers.ts";
import { linkTo, renderFooter, renderNotes, renderVerdict } from "./frame.ts";
import { describeStaleness } from "./staleness.ts";
import { markdown } from "./text.ts";
import { groupPreviews } from "./groups.ts";
import { renderObstacle } from "./obstacle.ts";
import { renderRollout } from "./rollout.ts";
import { renderSections, type Sections } from "./sections.ts";
import { renderUncounted } from "./uncounted.ts";
import { describeOnly, renderTable } from "./table.ts";
import { isChanged, plural } from "../preview/summary.ts";

export interface CommentOptions {
  /** The forge's limit in characters; at least a few thousand. */
  readonly maxLength: number;
  /** An HTML comment that identifies our comment; comes first. */
  readonly marker: string;
  /** The address of the page that shows the full diff; without characters that Markdown or HTML interprets. */
  readonly pageUrl?: string | undefined;
}

/** The largest share of the room for the list of dangers. */
const dangerShare = 0.2;
/** The largest share for what is not the pull request's. */
const uncountedShare = 0.15;
/** The largest share for the deployments that the compared ones contain. */
const childrenShare = 0.25;
/** Room for the line that says what is not shown. */
const leftOutLength = 300;

/** Renders as much as fits, and a line that says what was omitted. */
export function renderComment(report: Report, { maxLength, marker, pageUrl }: CommentOptions): string {
  const shown = toShown(report);
  const top = [
    marker,
    describeStaleness(report, markdown) ?? "",
    renderVerdict(shown),
    ...renderNotes(shown),
    renderRollout(shown),
  ];
  const footer = renderFooter(shown, pageUrl);
  const over = !isOpen(shown);
  const [open, close] = over ? ["<details><summary>Result of the last preview</summary>", "</details>"] : ["", ""];
  const frame = [...top, open, close, footer].filter(Boolean);
  // Forges count code points, of which there are never more than UTF-16 units; 2 % are kept in reserve.
  const room = Math.floor(maxLength * 0.98) - frame.reduce((sum, block) => sum + block.length + 2, 0);

  const body = renderBody(shown, { room, over, pageUrl });
  const blocks = body === "" ? [...top, footer] : [...top, open, body, close, footer];
  return blocks.filter(Boolean).join("\n\n");
}

/** Whether a comment already says, like the report, that its pull request was merged or closed. */
export function hasFinalVerdict(body: string, report: Report): boolean {
  const verdict = body.split(/\r?\n/).find((line) => line.startsWith("### "));
  return !isOpen(report) && verdict === renderVerdict(report);
}

/**
 * The comment without the time of day at which it was compared, and without how long that took: if nothing else differs, it
 * need not be written again. The day stays, so that readers see how old it is.
 */
export function withoutTime(body: string): string {
  return body
    .replaceAll("\r\n", "\n")
    .trimEnd()
    .replace(footerLine, (footer) => footer.replace(timeOfDay, "").replace(tookTime, ""));
}

const footerLine = /<sub>[^\n]*<\/sub>$/;
const timeOfDay = / \d\d:\d\d:\d\d UTC/;
const tookTime = / · took [\d. smin]+/;

interface BodyOptions extends Pick<CommentOptions, "pageUrl"> {
  readonly room: number;
  readonly over: boolean;
}

function renderBody(report: Report, { room, over, pageUrl }: BodyOptions): string {
  const { obstacle, previews } = report;
  if (obstacle !== undefined) return renderObstacle(obstacle, report, room);
  if (previews.every(isUneventful)) return "";

  const groups = groupPreviews(previews);
  const dangers = renderDangers(groups, previews.length, Math.floor(room * dangerShare));
  const uncounted = renderUncounted(report, Math.floor(room * uncountedShare));
  const children = renderChildren(report, Math.floor(room * childrenShare));
  const besides = dangers.length + children.length + uncounted.length;
  const roomForTable = room - besides - leftOutLength - (pageUrl?.length ?? 0);
  const [first, second] = previews;
  // The verdict and the section of a single deployment say what its row would.
  const only = second === undefined ? first : undefined;
  const table = only === undefined ? renderTable(groups, { over, room: roomForTable }) : "";
  const sections = renderSections(groups, { room: roomForTable - table.length - 6, only: only !== undefined });
  const line = only !== undefined && sections.text === "" ? describeOnly(only, over) : "";
  return [dangers, table, line, sections.text, describeLeftOut(sections, pageUrl), children, uncounted]
    .filter(Boolean)
    .join("\n\n");
}

/** Compared, and there is nothing to report. */
export function isUneventful(preview: Preview): boolean {
  const { errors, warnings } = preview.counts;
  const { state, concealed, approval, drift, encrypted, kept, undeployed, noise, unattributed } = preview;
  const isSaid =
    concealed !== undefined ||
    approval === "pending" ||
    (encrypted?.changed.length ?? 0) > 0 ||
    kept !== undefined ||
    undeployed !== undefined ||
    noise !== undefined ||
    unattributed !== undefined;
  return state === "done" && !isChanged(preview) && errors + warnings + drift === 0 && !isSaid;
}

function describeLeftOut({ sectionsLeftOut, objectsLeftOut, linesLeftOut }: Sections, pageUrl?: string): string {
  const parts = [
    sectionsLeftOut > 0 && `the details of ${plural(sectionsLeftOut, "section")}`,
    objectsLeftOut > 0 && plural(objectsLeftOut, "object"),
    linesLeftOut > 0 && plural(linesLeftOut, "line"),
  ].filter((part) => part !== false);
  if (parts.length === 0) return "";
  const where = pageUrl === undefined ? "" : `${linkTo(pageUrl, "The full diff")} has more. `;
  return `_Not shown for lack of space: ${parts.join(", ")}. ${where}\`kluctl diff\` shows everything._`;
}
