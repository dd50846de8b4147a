/** Brings a commit's statuses on its forge in line with what they should be: only what differs is written. */
import type { CommitKey, CommitStatus } from "../model.ts";
import type { Forge, Reports } from "../ports.ts";
import { isPreviewLine } from "./statuses.ts";

export interface StatusesDeps {
  readonly forge: Pick<Forge, "setStatus">;
  readonly reports: Pick<Reports, "statuses" | "saveStatuses">;
}

/** Throws the forge's error at the first write that fails; what was written until then is remembered. */
export async function writeStatuses(
  { forge, reports }: StatusesDeps,
  commit: CommitKey,
  wanted: readonly CommitStatus[],
  signal?: AbortSignal,
): Promise<void> {
  const known = new Map((await reports.statuses(commit)).map((status) => [status.context, status]));
  const differing = wanted.filter((status) => !isSame(known.get(status.context), status));
  if (differing.length === 0) return;
  try {
    for (const status of differing) {
      await forge.setStatus(commit, status, signal);
      known.set(status.context, status);
    }
  } finally {
    await reports.saveStatuses(commit, [...known.values()]);
  }
}

/** Ends what pull requests have left pending on a commit. */
export async function endPending(
  deps: StatusesDeps,
  commit: CommitKey,
  why: string,
  signal?: AbortSignal,
): Promise<void> {
  const pending = (await deps.reports.statuses(commit)).filter(
    (line) => isPreviewLine(line) && line.state === "pending",
  );
  const ended = pending.map((line) => ({ ...line, state: "canceled" as const, description: why }));
  await writeStatuses(deps, commit, ended, signal);
}

/** Takes back what was said of deployments that a pull request does not concern any more, or of which nothing is known. */
export async function takeBack(
  deps: StatusesDeps,
  commit: CommitKey,
  {
    wanted,
    as,
  }: { readonly wanted: readonly CommitStatus[]; readonly as: Pick<CommitStatus, "state" | "description"> },
  signal?: AbortSignal,
): Promise<void> {
  const contexts = new Set(wanted.map(({ context }) => context));
  const others = (await deps.reports.statuses(commit)).filter(
    (line) => isPreviewLine(line) && !contexts.has(line.context),
  );
  const takenBack = others.map((line) => ({ ...line, ...as }));
  await writeStatuses(deps, commit, takenBack, signal);
}

function isSame(known: CommitStatus | undefined, { state, description, url }: CommitStatus): boolean {
  return known?.state === state && known.description === description && known.url === url;
}
