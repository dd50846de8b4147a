/**
 * Renders a report for a terminal: the comment's content in the same order and words, but in colour, and with nothing cut
 * for length. Lines are never wrapped or cut to the terminal's width, so that they can be copied and piped. Pure.
 */
import { isUneventful } from "../../comment/comment.ts";
import { findDangers } from "../../comment/dangers.ts";
import { describeFooter, describeNotes, describeVerdict } from "../../comment/frame.ts";
import { groupPreviews } from "../../comment/groups.ts";
import { findUncounted } from "../../comment/uncounted.ts";
import { keyText } from "../../model.ts";
import type { Preview, Report } from "../../model/report.ts";
import { plural } from "../../preview/summary.ts";
import { renderChildren } from "./children.ts";
import { renderDanger } from "./danger.ts";
import { renderGroup } from "./group.ts";
import { renderObstacle } from "./obstacle.ts";
import { type Colouring, createColouring } from "./palette.ts";
import { oneLine, plainMarkup } from "./safe-text.ts";
import { renderUncounted } from "./uncounted.ts";

export function renderReportText(report: Report, { color }: { readonly color: boolean }): string {
  const colour = createColouring(color);
  const strong = plainMarkup((text) => colour("title", text));
  const blocks = [
    renderVerdict(report, colour),
    ...describeNotes(report, strong),
    ...(report.obstacle === undefined
      ? [
          ...renderPreviews(report.previews, colour),
          ...(report.children === undefined ? [] : [renderChildren(report.children, colour)]),
          ...findUncounted(report).map((uncounted) => renderUncounted(uncounted, report.baseBranch, colour)),
        ]
      : renderObstacle(report.obstacle, report)),
    colour("aside", describeFooter(report, strong)),
  ];
  return blocks.join("\n\n");
}

/** Deletions stand out. */
function renderVerdict(report: Report, colour: Colouring): string {
  const verdict = describeVerdict(
    report,
    plainMarkup((text) => colour("removed", text)),
  );
  return colour(
    "title",
    verdict.replace(/^[a-z]/, (letter) => letter.toUpperCase()),
  );
}

function renderPreviews(previews: readonly Preview[], colour: Colouring): string[] {
  const unchanged = previews.filter(isUneventful);
  const groups = groupPreviews(previews.filter((preview) => !isUneventful(preview)));
  return [
    ...findDangers(groups).map((found) => renderDanger(found, previews.length, colour)),
    ...groups.map((group) => renderGroup(group, colour)),
    ...(unchanged.length > 0 ? [colour("aside", listUnchanged(unchanged))] : []),
  ];
}

function listUnchanged(previews: readonly Preview[]): string {
  const names = previews.map(({ deployment }) => oneLine(keyText(deployment)));
  return `${plural(previews.length, "deployment")} without a change: ${names.join(", ")}`;
}
