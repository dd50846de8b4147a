/** What a report keeps from the previous one. Pure. */
import type { PreviewCause, PullRequest } from "../model.ts";
import type { EarlierPreview, LatestResult, Report } from "../model/report.ts";
import { describeReport } from "./summary.ts";

const keptHeads = 5;
const keptPreviews = 20;
/** A base branch that moves less often leaves enough time to show a preview. */
const inARowMs = 2 * 60_000;

/** The heads whose statuses may still be pending. */
export function earlierHeads(previous: Report | undefined, head: string): string[] {
  if (previous === undefined) return [];
  return [...new Set([previous.head, ...previous.earlierHeads])].filter((one) => one !== head).slice(0, keptHeads);
}

/** What the previews of the heads before this one found; of each head, its last preview. */
export function earlierPreviews(previous: Report | undefined, head: string): EarlierPreview[] | undefined {
  if (previous === undefined || previous.head === head) return previous?.earlierPreviews;
  const { state, finishedAt, startedAt } = previous;
  // That it was closed afterwards does not change what was found.
  const verdict =
    state === "working" ? "superseded before it was compared" : describeReport({ ...previous, state: "done" });
  const last = { head: previous.head, verdict, at: finishedAt ?? startedAt };
  const earlier = (previous.earlierPreviews ?? []).filter((one) => one.head !== head && one.head !== last.head);
  return [last, ...earlier].slice(0, keptPreviews);
}

/** What is shown until the pull request has been previewed again; `undefined` if there is nothing worth showing. */
export function latestResult(previous: Report | undefined, why: PreviewCause | undefined): LatestResult | undefined {
  if (previous?.state === "working") return previous.latest && { ...previous.latest, why };
  if (previous?.state !== "done" || previous.obstacle !== undefined) return undefined;
  const { baseBranch, head, base, previews, unshown, beyond, children, startedAt, finishedAt } = previous;
  if (previews.length + (unshown?.length ?? 0) === 0) return undefined;
  return { baseBranch, head, base, previews, unshown, beyond, children, startedAt, finishedAt, why };
}

/**
 * How often in a row the base branch moved before the preview was complete. `base`: its current commit, once that is
 * known.
 */
export function restarts(
  previous: Report | undefined,
  { head, baseBranch }: Pick<PullRequest, "head" | "baseBranch">,
  base: string | undefined,
  now: number,
): number {
  if (previous === undefined || previous.head !== head || previous.baseBranch !== baseBranch) return 0;
  if (now - (previous.finishedAt ?? previous.startedAt) >= inARowMs) return 0;
  if (base !== undefined && previous.base !== undefined && previous.base !== base) return previous.restarts + 1;
  // The previous preview was aborted, or it is too early to tell: the count is kept.
  return previous.state === "working" || base === undefined ? previous.restarts : 0;
}
