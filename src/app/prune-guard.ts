/** The size from which prunes need confirmation, according to the configuration. */
import type { Config } from "../config.ts";
import type { PruneGuard } from "../guards/pruning.ts";

export function pruneGuardOf({ prune }: Pick<Config, "prune">): PruneGuard | undefined {
  return prune.confirm ? { percent: prune.confirmPercent, fromObjects: prune.confirmFromObjects } : undefined;
}
