/** Updates the status of a merge queue's commit to the findings about the group. */
import type { MergeGroupKey, RepoId } from "../model.ts";
import type { Forge, Reports } from "../ports.ts";
import { aggregateContext, isPreviewLine, sharedStatuses } from "./statuses.ts";
import { writeStatuses } from "./write-statuses.ts";

export interface GroupStatusDeps {
  readonly forges: ReadonlyMap<string, Pick<Forge, "setStatus" | "setStatuses">>;
  readonly reports: Pick<Reports, "statuses" | "saveStatuses" | "reruns" | "groupStatuses" | "proposing">;
}

/**
 * When the queue merges the group, the base branch moves to this commit. From then on its status shows the progress of its
 * deployment, which a preview must not overwrite.
 */
export async function writeGroupStatus(
  { forges, reports }: GroupStatusDeps,
  group: MergeGroupKey,
  repo: RepoId | undefined,
  signal: AbortSignal,
): Promise<void> {
  const forge = forges.get(group.forge);
  const found = await reports.groupStatuses(group);
  if (forge === undefined || found.size === 0) return;
  const written = (await reports.statuses(group)).find(({ context }) => context === aggregateContext);
  if (written !== undefined && !isPreviewLine(written)) return;
  const proposing = repo === undefined ? [] : await reports.proposing(repo, group.commit);
  const sum = sharedStatuses(proposing, found.values()).filter(({ context }) => context === aggregateContext);
  await writeStatuses({ forge, reports }, group, sum, signal);
}
