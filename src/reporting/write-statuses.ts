/** Brings a commit's statuses on its forge in line with what they should be: only what differs is written. */
import type { CommitKey, CommitStatus } from "../model.ts";
import type { Forge, Reports } from "../ports.ts";

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

/** Ends whatever is still pending on a commit, besides the lines in `except`. */
export async function endPending(
  deps: StatusesDeps,
  commit: CommitKey,
  why: string,
  { except = [], signal }: { readonly except?: readonly string[]; readonly signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const pending = (await deps.reports.statuses(commit)).filter(
    ({ state, context }) => state === "pending" && !except.includes(context),
  );
  const ended = pending.map((status) => ({ ...status, state: "canceled" as const, description: why }));
  await writeStatuses(deps, commit, ended, signal);
}

function isSame(known: CommitStatus | undefined, { state, description, url }: CommitStatus): boolean {
  return known?.state === state && known.description === description && known.url === url;
}
