/** Brings the status beside a merge queue's commit in line with what was found out about the group. */
import type { GitDeployment, MergeGroupKey } from "../model.ts";
import type { Forge, Reports } from "../ports.ts";
import { aggregateContext, isPreviewLine, sharedStatuses } from "./statuses.ts";
import { writeStatuses } from "./write-statuses.ts";

export interface GroupStatusDeps {
  readonly forges: ReadonlyMap<string, Pick<Forge, "setStatus">>;
  readonly reports: Pick<Reports, "statuses" | "saveStatuses" | "groupStatuses" | "proposing">;
}

/**
 * The base branch is moved to this very commit when the queue merges it. From then on its status says what became of it
 * in the cluster, and what merging would have changed is not written over that.
 */
export async function writeGroupStatus(
  { forges, reports }: GroupStatusDeps,
  group: MergeGroupKey,
  following: readonly GitDeployment[],
  signal: AbortSignal,
): Promise<void> {
  const forge = forges.get(group.forge);
  const found = await reports.groupStatuses(group);
  if (forge === undefined || found.size === 0) return;
  const written = (await reports.statuses(group)).find(({ context }) => context === aggregateContext);
  if (written !== undefined && !isPreviewLine(written)) return;
  const repo = following[0]?.repo;
  const proposing = repo === undefined ? [] : await reports.proposing(repo, group.commit);
  const sum = sharedStatuses(proposing, found.values()).filter(({ context }) => context === aggregateContext);
  await writeStatuses({ forge, reports }, group, sum, signal);
}
