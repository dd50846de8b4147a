/** Updates a commit's statuses on its forge; writes only those that differ. */
import { createHash } from "node:crypto";
import type { CommitKey, CommitStatus, StatusForm } from "../model.ts";
import { withoutTime } from "../comment/comment.ts";
import type { Forge, Reports } from "../ports.ts";
import { isPreviewLine } from "./statuses.ts";

export interface StatusesDeps {
  readonly forge: Pick<Forge, "setStatus" | "setStatuses">;
  readonly reports: Pick<Reports, "statuses" | "saveStatuses" | "reruns">;
}

/** Throws the forge's error at the first write that fails; earlier writes are recorded. */
export async function writeStatuses(
  { forge, reports }: StatusesDeps,
  commit: CommitKey,
  wanted: readonly CommitStatus[],
  signal?: AbortSignal,
): Promise<void> {
  // Read before the host is asked: a rerun requested while this is written is not answered by it.
  const [recorded, reruns] = await Promise.all([reports.statuses(commit), reports.reruns(commit)]);
  const known = new Map(recorded.map((status) => [status.context, status]));
  const differing = wanted.filter((status) => !isSame(known.get(status.context), status, reruns));
  if (differing.length === 0) return;
  const statuses = differing.map((line) => ({ ...line, shown: known.get(line.context)?.shown }));
  const written: CommitStatus[] = [];
  const onShown = (status: CommitStatus, form: StatusForm) => void written.push(toRecord(status, form, reruns));
  try {
    if (forge.setStatuses !== undefined && statuses.length > 1) {
      await forge.setStatuses(commit, statuses, onShown, signal);
    } else for (const status of statuses) onShown(status, await forge.setStatus(commit, status, signal));
  } finally {
    if (written.length > 0) await reports.saveStatuses(commit, written);
  }
}

/** Ends statuses that pull requests left pending on a commit. */
export async function endPending(
  deps: StatusesDeps,
  commit: CommitKey,
  why: string,
  signal?: AbortSignal,
): Promise<void> {
  const canceled = { state: "canceled", description: why } as const;
  await rewritePreviewLines(deps, commit, ({ state }) => state === "pending", canceled, signal);
}

/** Withdraws statuses of deployments that a pull request no longer affects, or that are unknown. */
export async function takeBack(
  deps: StatusesDeps,
  commit: CommitKey,
  { wanted, as }: { readonly wanted: readonly CommitStatus[]; readonly as: Saying },
  signal?: AbortSignal,
): Promise<void> {
  const contexts = new Set(wanted.map(({ context }) => context));
  await rewritePreviewLines(deps, commit, ({ context }) => !contexts.has(context), as, signal);
}

type Saying = Pick<CommitStatus, "state" | "description" | "neutral">;

async function rewritePreviewLines(
  deps: StatusesDeps,
  commit: CommitKey,
  concerns: (line: CommitStatus) => boolean,
  as: Saying,
  signal: AbortSignal | undefined,
): Promise<void> {
  const known = await deps.reports.statuses(commit);
  const lines = known.filter((line) => isPreviewLine(line) && concerns(line)).map((line) => ({ ...line, ...as }));
  await writeStatuses(deps, commit, lines, signal);
}

/** Whether all of these statuses are already written, regardless of their URL. */
export function isSaid(wanted: readonly CommitStatus[], known: readonly CommitStatus[]): boolean {
  const byContext = new Map(known.map((line) => [line.context, line]));
  return wanted.every((line) => saysTheSame(byContext.get(line.context), line));
}

function saysTheSame(known: CommitStatus | undefined, { state, description }: CommitStatus): boolean {
  return known?.state === state && known.description === description;
}

function isSame(known: CommitStatus | undefined, status: CommitStatus, reruns: number): boolean {
  if (!saysTheSame(known, status) || known?.url !== status.url) return false;
  // A commit status shows no details, so that other details are no reason to write it again.
  return known?.shown === undefined || known.shown === idOf(status, reruns);
}

function toRecord({ details, shown: _, ...line }: CommitStatus, form: StatusForm, reruns: number): CommitStatus {
  return form === "check" ? { ...line, shown: idOf({ details }, reruns) } : line;
}

/**
 * After a rerun, a check run has to be written again, also with the same details. When they were found makes no difference, as in
 * the comment.
 */
function idOf({ details }: Pick<CommitStatus, "details">, reruns: number): string {
  const shown = details && { ...details, text: withoutTime(details.text) };
  return createHash("sha256")
    .update(JSON.stringify([reruns, shown ?? null]))
    .digest("hex")
    .slice(0, 16);
}
